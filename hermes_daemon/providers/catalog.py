"""Which models there are and who speaks for them: ports.Models over settings, presets, model files and scripts."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from hermes_daemon.core.ports import ModelInfo, Processes, Provider, ProviderFailure, Refused
from hermes_daemon.core.settings import ModelEntry, ProviderSettings, Settings
from hermes_daemon.providers.credentials import STORE_S, CredentialError, keep_in_keyring
from hermes_daemon.providers.efforts import taken_efforts
from hermes_daemon.providers.http_provider import HttpProvider
from hermes_daemon.providers.key_report import key_rows, tested
from hermes_daemon.providers.local import Local
from hermes_daemon.providers.model_cache import Listing, ModelCache
from hermes_daemon.providers.model_data import known_traits
from hermes_daemon.providers.model_files import list_models, model_name
from hermes_daemon.providers.model_traits import joined_traits, listed_window
from hermes_daemon.providers.presets import PRESETS, is_family, quirks_of, with_preset
from hermes_daemon.providers.scripted import Scripted
from hermes_daemon.providers.wire import Traits
from hermes_protocol.methods import AuthRow, AuthTested, ModelRow

PROBE_S = 3.0
PROBE_KEPT_S = 300.0
MOST_PROBED = 500
BUILT_IN = ("local", "scripted")


class Catalog:
    """ports.Models. `secret` gives the value of a variable or None; below `data_dir` lie `models`, `logs` and `cache`.

    `now` is in seconds since the epoch.
    """

    def __init__(
        self,
        settings: Settings,
        secret: Callable[[str], str | None],
        data_dir: str,
        *,
        processes: Processes | None = None,
        on_key: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._secret = secret
        self._now = now
        self._on_key = on_key
        self._models_dir = os.path.join(data_dir, "models")
        self._log_path = os.path.join(data_dir, "logs", "local-model.log")
        self._processes = processes
        self._scripted = Scripted()
        self._chats: dict[str, tuple[ProviderSettings, HttpProvider]] = {}
        self._cache = ModelCache(os.path.join(data_dir, "cache", "models.json"))
        self._outdated: list[Provider] = []
        self._settings = settings
        self._local = self._new_local()

    def update(self, settings: Settings) -> None:
        """Take over changed settings. Turns that run keep what they have; what is outdated is given up at close."""
        if settings.local != self._settings.local:
            self._outdated.append(self._local)
            self._local.retire()
            self._settings = settings
            self._local = self._new_local()
        self._settings = settings

    def default(self) -> str:
        """See ports.Models."""
        if self._settings.model.default:
            return self._settings.model.default
        for name, provider in self._settings.providers.items():
            if provider.models and name not in BUILT_IN:
                return f"{name}/{_entry(provider.models[0]).name}"
        return f"local/{model_name(self._settings.local.model)}"

    def resolve(self, model: str | None) -> tuple[Provider, ModelInfo]:
        """See ports.Models. A name without a provider is found when exactly one known model has it."""
        wanted = model or self.default()
        provider, slash, name = wanted.partition("/")
        if not slash:
            ids = [known for known in self._known() if known.partition("/")[2] == wanted]
            if len(ids) != 1:
                raise self._unknown(wanted, ids)
            provider, _, name = ids[0].partition("/")
        if not name:
            raise self._unknown(wanted)
        if provider == "scripted":
            info = self._scripted.info(name)
            if info is None:
                raise self._unknown(wanted)
            return self._scripted, info
        if provider == "local":
            return self._resolve_local(wanted, name)
        settings = self._endpoint(provider)
        if settings is None:
            raise self._unknown(wanted)
        return self._chat(provider, settings), self._info(provider, settings, name)

    async def rows(self, probe: bool) -> tuple[ModelRow, ...]:
        """See ports.Models. Endpoints are asked side by side, 3 s at most; what they said is kept for five minutes."""
        endpoints = {name: self._endpoint(name) for name in self._active()}
        problems: dict[str, str] = {}
        if probe:
            names = [name for name, settings in endpoints.items() if settings is not None]
            problems = dict(zip(names, await asyncio.gather(*map(self._probe, names)), strict=True))
        rows = [row for name in endpoints for row in self._endpoint_rows(name, problems.get(name, ""))]
        rows.extend(self._local_rows())
        info = self._scripted.info("echo")
        assert info is not None
        rows.append(self._row(info, note="answers with your own words; for demos and tests"))
        return tuple(rows)

    def auth_rows(self) -> tuple[AuthRow, ...]:
        """See ports.Models. Endpoints that are known by name and neither configured nor keyed are listed as well."""
        names = [*self._active(), *(name for name, preset in PRESETS.items() if preset.api_key_env)]
        found = {name: self._endpoint(name) for name in dict.fromkeys(names)}
        return tuple(
            row
            for name, settings in found.items()
            if settings is not None
            for row in key_rows(name, settings, self._secret)
        )

    async def test_keys(self, provider: str) -> tuple[AuthTested, ...]:
        """See ports.Models."""
        settings = self._known_endpoint(provider)
        if not settings.base_url:
            text = f"{provider} has no address."
            raise Refused(text, f"Set providers.{provider}.base_url.", kind="invalid_params")
        return tuple(await tested(provider, settings, self._chat(provider, settings)))

    def key_source(self, provider: str, store: Literal["env", "keyring"]) -> str:
        """See ports.Models."""
        sources = self._known_endpoint(provider).key_sources
        if store == "keyring":
            kept = [source for source in sources if source.startswith("keyring:")]
            return kept[0] if kept else f"keyring:hermes-daemon/{provider}"
        variables = [source for source in sources if ":" not in source]
        return variables[0] if variables else f"{re.sub('[^A-Z0-9]', '_', provider.upper())}_API_KEY"

    async def keep_key(self, source: str, value: str | None) -> None:
        """See ports.Models."""
        try:
            async with asyncio.timeout(STORE_S):
                await asyncio.to_thread(keep_in_keyring, source.removeprefix("keyring:"), value)
        except CredentialError as error:
            raise Refused(str(error), kind="invalid_params") from None
        except TimeoutError:
            text = f"The key store did not answer within {STORE_S:g} s."
            raise Refused(text, "It may wait for its user.", kind="invalid_params") from None
        for _, chat in self._chats.values():
            chat.keys.forget(source)

    def _known_endpoint(self, name: str) -> ProviderSettings:
        settings = self._endpoint(name)
        if settings is None:
            known = [*(key for key in self._settings.providers if key not in BUILT_IN), *PRESETS]
            raise Refused(
                f"There is no provider {name!r}.",
                f"There are {', '.join(dict.fromkeys(known))}; others are added under providers.",
                kind="invalid_params",
            )
        return settings

    def secret_values(self) -> frozenset[str]:
        """Every key that an endpoint known by name would use, or that came out of a key store: what must never be
        shown."""
        names = [preset.api_key_env for preset in PRESETS.values() if preset.api_key_env]
        stored = frozenset[str]().union(*(chat.keys.values for _, chat in self._chats.values()))
        return stored | frozenset(key for name in names if (key := self._secret(name)))

    def learn_limit(self, model_id: str, tokens: int) -> None:
        """Remember, also over restarts, the window in tokens that a refusal named for a model of an endpoint.

        Endpoints of this catalog do so by themselves; the next `resolve` gives the new window.
        """
        self._cache.keep_limit(model_id, tokens)

    async def close(self) -> None:
        """Give up connections and children. Safe to call twice."""
        outdated, self._outdated = self._outdated, []
        chats, self._chats = [chat for _, chat in self._chats.values()], {}
        await asyncio.gather(*(provider.close() for provider in (*outdated, *chats, self._local, self._scripted)))

    # --- endpoints ------------------------------------------------------------------------------------------------

    def _active(self) -> list[str]:
        """Configured providers, then presets whose key is set or that the default model names."""
        names = [name for name in self._settings.providers if name not in BUILT_IN]
        keyed = [
            name
            for name, preset in PRESETS.items()
            if preset.base_url and preset.api_key_env and self._secret(preset.api_key_env)
        ]
        chosen = self._settings.model.default.partition("/")[0]
        keyed += [chosen] if chosen in PRESETS and chosen not in keyed else []
        return names + [name for name in keyed if name not in names]

    def _endpoint(self, name: str) -> ProviderSettings | None:
        if name in BUILT_IN:
            return None
        configured = self._settings.providers.get(name)
        if configured is None and name not in PRESETS:
            return None
        return with_preset(name, configured or ProviderSettings())

    def _chat(self, name: str, settings: ProviderSettings) -> HttpProvider:
        known = self._chats.get(name)
        if known is not None and known[0] == settings:
            return known[1]
        if known is not None:
            self._outdated.append(known[1])
        chat = HttpProvider(
            name,
            settings,
            self._secret,
            quirks=quirks_of(name, settings),
            traits=lambda model: self._traits(name, settings, model),
            on_limit=lambda model, tokens: self.learn_limit(f"{name}/{model}", tokens),
            on_key=self._on_key,
        )
        self._chats[name] = settings, chat
        return chat

    def _listed(self, provider: str, settings: ProviderSettings) -> dict[str, dict[str, Any]]:
        """What the endpoint listed the last time it was asked, by model."""
        listing = self._cache.listing(provider, settings.base_url)
        return {row["id"]: row for row in listing.rows if isinstance(row.get("id"), str)} if listing else {}

    def _traits(self, provider: str, settings: ProviderSettings, name: str) -> Traits:
        entry = next((entry for entry in map(_entry, settings.models) if entry.name == name), ModelEntry(name))
        host = (settings.preset or provider) if is_family(provider, settings) else ""
        listed = self._listed(provider, settings).get(name, {})
        return joined_traits(entry, listed, known_traits(host, name), self._cache.limit(f"{provider}/{name}"))

    def _info(self, provider: str, settings: ProviderSettings, name: str) -> ModelInfo:
        entries = {entry.name: entry for entry in map(_entry, settings.models)}
        if entries and name not in entries and name not in self._listed(provider, settings):
            hint = f"A model that is not listed is added under providers.{provider}.models."
            raise self._unknown(f"{provider}/{name}", hint=hint)
        traits = self._traits(provider, settings, name)
        entry = entries.get(name, ModelEntry(name))
        info = ModelInfo(
            f"{provider}/{name}",
            name,
            provider,
            # Not the most a model could write: what is asked for is taken from its window.
            max_output=entry.max_output or self._settings.model.max_output,
            tools=traits.tools is not False,
            vision=traits.vision is True,
            efforts=taken_efforts(settings.format, quirks_of(provider, settings).efforts, traits),
        )
        window = traits.context_length
        return info if window is None else msgspec.structs.replace(info, context_length=window)

    async def _probe(self, name: str) -> str:
        """Ask an endpoint for its models; "" or the sentence about what went wrong."""
        settings = self._endpoint(name)
        assert settings is not None
        chat = self._chat(name, settings)
        known = self._cache.listing(name, settings.base_url)
        if known is not None and 0 <= self._now() - known.at < PROBE_KEPT_S:
            return ""
        try:
            async with asyncio.timeout(PROBE_S):
                rows = await chat.models()
        except ProviderFailure as failure:
            return failure.message
        except TimeoutError:
            return f"{chat.models_url} did not answer within {PROBE_S:g} s."
        rows = rows[:MOST_PROBED]
        self._cache.keep_listing(name, Listing(settings.base_url, self._now(), rows))
        for row in rows:
            if listed_window(row) is not None:  # news about the window are worth more than an old refusal
                self._cache.forget_limit(f"{name}/{row['id']}")
        return ""

    def _endpoint_rows(self, name: str, problem: str) -> list[ModelRow]:
        settings = self._endpoint(name)
        assert settings is not None
        sources = settings.key_sources
        # What a key store or a file holds is not asked for a list: it may ask its user, or block.
        missing = bool(sources) and not any(":" in source or self._secret(source) for source in sources)
        state, note = ("missing", f"set {' or '.join(sources)}") if missing else ("ready", "")
        if problem and not missing:
            state, note = "unreachable", problem
        names = [_entry(entry).name for entry in settings.models]
        names += [listed for listed in self._listed(name, settings) if listed not in names]
        provider, _, model = self.default().partition("/")
        if provider == name and model and not settings.models and model not in names:
            names.insert(0, model)  # an endpoint without a list takes any name, so this one as well
        if not names:
            asks = note or "`hermes models --probe` asks it for its models"
            return [ModelRow(id=f"{name}/…", provider=name, state=state, note=asks)]
        return [
            self._row(self._info(name, settings, model), state, note, self._traits(name, settings, model))
            for model in names
        ]

    # --- local ----------------------------------------------------------------------------------------------------

    def _new_local(self) -> Local:
        return Local(self._settings.local, self._models_dir, processes=self._processes, log_path=self._log_path)

    def _resolve_local(self, wanted: str, name: str) -> tuple[Provider, ModelInfo]:
        # The configured one is known before it is fetched: asking it says how to fetch it.
        if name != model_name(self._settings.local.model) and self._local.path(name) is None:
            raise self._unknown(wanted, hint="`hermes models pull` fetches models.")
        return self._local, self._local.info(name)

    def _local_rows(self) -> list[ModelRow]:
        configured = model_name(self._settings.local.model)
        names = [configured, *(f.name for f in list_models(self._models_dir) if f.name != configured)]
        engine = importlib.util.find_spec("xllamacpp") is not None
        rows = []
        for name in names:
            info = self._local.info(name)
            state, note = "ready", info.note
            if not engine:
                state, note = "missing", "pip install 'hermes-daemon[local]'"
            elif self._local.path(name) is None:
                state, note = "missing", f"hermes models pull {name}"
            if info.id == self.default() and (better := next(iter(self._active()), "")):
                note = f"{note}; {better} is ready: hermes config set model.default {better}/NAME"
            rows.append(self._row(info, state, note))
        return rows

    # --- names ----------------------------------------------------------------------------------------------------

    def _row(self, info: ModelInfo, state: str = "ready", note: str = "", traits: Traits | None = None) -> ModelRow:
        traits = traits or Traits()
        return ModelRow(
            id=info.id,
            provider=info.provider,
            context_length=info.context_length,
            max_output=info.max_output or traits.max_output,
            tools=info.tools,
            vision=traits.vision,
            reasoning=traits.reasoning,
            efforts=traits.efforts,
            input_price=None if traits.price is None else traits.price.input,
            output_price=None if traits.price is None else traits.price.output,
            price_from=traits.price_from,
            cache=traits.cache,
            default=info.id == self.default(),
            state=state,
            note=note,
        )

    def _known(self) -> list[str]:
        ids = [f"local/{model_name(self._settings.local.model)}", "scripted/echo", "scripted/words", "scripted/tool"]
        ids += [f"local/{file.name}" for file in list_models(self._models_dir)]
        for name in self._active():
            settings = self._endpoint(name)
            assert settings is not None
            ids += [f"{name}/{_entry(entry).name}" for entry in settings.models]
            ids += [f"{name}/{listed}" for listed in self._listed(name, settings)]
        return list(dict.fromkeys(ids))

    def _unknown(self, wanted: str, near: list[str] | None = None, hint: str = "") -> Refused:
        import difflib  # only for a mistake

        known = self._known()
        near = near or difflib.get_close_matches(wanted, known, 3, 0.5)
        if not near:
            tails = {known_id.partition("/")[2]: known_id for known_id in known}
            near = [
                tails[tail] for tail in difflib.get_close_matches(wanted.partition("/")[2] or wanted, tails, 3, 0.5)
            ]
        meant = f"Did you mean {' or '.join(near)}?" if near else "`hermes models` lists what there is."
        reason = f"Unknown model {wanted!r}: a model is named provider/name."
        return Refused(reason, f"{meant} {hint}".rstrip(), "invalid_params")


def _entry(entry: ModelEntry | str) -> ModelEntry:
    return ModelEntry(entry) if isinstance(entry, str) else entry
