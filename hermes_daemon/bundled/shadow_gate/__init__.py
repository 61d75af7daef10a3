"""Evidence of decisions in the shadow: what was decided, what came of it, and whether that satisfies a policy."""
