"""A request middleware gives back the whole request that shall be sent, or None to leave it as it is."""

from typing import Any

from hermes_daemon.api import PluginContext


def register(ctx: PluginContext) -> None:
    def tag(request: dict[str, Any], session_id: str, **_: Any) -> dict[str, Any]:
        body = request.get("extra_body", {})  # what the endpoint is sent beside the fields that the daemon knows
        metadata = {**body.get("metadata", {}), "tag": ctx.get_config("tag"), "session": session_id}
        changed = {**request, "extra_body": {**body, "metadata": metadata}}
        return {"request": changed, "source": ctx.plugin_id, "reason": "billing"}

    ctx.register_middleware("llm_request", tag)
