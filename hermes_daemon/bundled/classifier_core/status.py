"""What the tool and the command show."""

from __future__ import annotations

from typing import Any

from .client import ClassifierClient


async def status(client: ClassifierClient, *, probe: bool) -> dict[str, Any]:
    """The state of the client as JSON; `probe` adds one fresh look at the service."""
    settings = client.settings
    counted = client.tally.snapshot()
    found: dict[str, Any] = {
        "endpoint": client.endpoint,
        "backend": client.backend.name,
        "served_model": settings.served_model,
        "api_key_env": settings.api_key_env,
        "breaker": {
            "state": client.breaker.state,
            "consecutive_failures": client.breaker.failures,
            "opens_at": settings.breaker_failures,
            "retry_after_s": round(client.breaker.retry_after, 1),
        },
        "healthy": client.healthy,
        "totals": {"accepted": counted["accepted"], "declined": counted["declined"]},
        "callers": counted["callers"],
    }
    if probe:
        health = await client.probe()
        found["probe"] = {"reachable": health.reachable, "model": health.model, "problem": health.problem}
    return found


def shown(found: dict[str, Any]) -> str:
    """The same as lines for people."""
    breaker = found["breaker"]
    lines = [
        f"endpoint  {found['endpoint'] or 'not configured'} ({found['backend']})",
        f"breaker   {breaker['state']}, {breaker['consecutive_failures']} of {breaker['opens_at']} failures in a row",
    ]
    if breaker["retry_after_s"]:
        lines.append(f"          one request may try in {breaker['retry_after_s']:g} s")
    if "probe" in found:
        probe = found["probe"]
        problem = f": {probe['problem']}" if probe["problem"] else ""
        reachable = "reachable" if probe["reachable"] else "not reachable"
        lines.append(f"service   {reachable}, model {probe['model'] or 'none'}{problem}")
    lines.append(f"calls     {_counts(found['totals'])}")
    lines += [f"  {name}: {_counts(caller)}" for name, caller in found["callers"].items()]
    return "\n".join(lines)


def _counts(row: dict[str, Any]) -> str:
    declined = ", ".join(f"{reason} {count}" for reason, count in sorted(row["declined"].items()))
    last = f" (last: {row['last_decline']})" if row.get("last_decline") else ""
    return f"{row['accepted']} accepted" + (f"; declined: {declined}{last}" if declined else "")
