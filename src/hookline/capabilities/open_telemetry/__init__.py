"""Traces and metrics of runs in OpenTelemetry, with the conventions for generative AI. Needs the extra `otel`.

The records of a run are its spans: a listener makes them. Hooks around models and tools make the span the current one,
so that what happens inside is below it. Without an exporter there is neither a listener nor a hook.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from hookline.agent import hook
from hookline.definition import Definition
from hookline.definition.definition import Note
from hookline.errors import BuildError
from hookline.extras import install_command
from hookline.hooks import HookOptions, Registration

if TYPE_CHECKING:
    from hookline.agent import AgentBuilder
    from hookline.capabilities.open_telemetry.listener import RunTracer

_OUTERMOST = 100_000


class OpenTelemetry:
    """Sends traces and metrics to where OTEL_EXPORTER_OTLP_ENDPOINT says, or to providers of yours.

    The providers are those that are given, else the global ones of the process if the application has set them, else
    those that the `OTEL_*` variables describe. Without any of them nothing is installed and nothing is sent.
    `content=True` adds prompts, arguments, results and reasons, redacted.
    """

    def __init__(
        self,
        *,
        content: bool = False,
        tracer_provider: Any = None,
        meter_provider: Any = None,
        name: str = "open_telemetry",
    ) -> None:
        for option, value, part in (
            ("tracer_provider", tracer_provider, "get_tracer"),
            ("meter_provider", meter_provider, "get_meter"),
        ):
            if value is not None and not hasattr(value, part):
                raise BuildError(f"{name}: {option}={value!r} is not a provider of OpenTelemetry.")
        if not isinstance(content, bool):
            raise BuildError(f"{name}: content={content!r} is not True or False.")
        try:
            from hookline.capabilities.open_telemetry.providers import find_providers
        except ImportError:
            raise BuildError(
                f"{name} needs the packages of OpenTelemetry.",
                remedy=f"Run: {install_command('otel')}",
            ) from None
        self.name = name
        self._tracer: RunTracer | None = None
        providers = find_providers(tracer_provider, meter_provider)
        if providers is not None:
            from hookline.capabilities.open_telemetry.listener import RunTracer

            self._tracer = RunTracer(providers, name, content=content)

    def hooks(self) -> Iterator[Registration]:
        """In shadow around models and tools: they watch, and hold nothing back."""
        tracer = self._tracer
        if tracer is None:
            return
        options = HookOptions(
            name=self.name, scope="tree", priority=_OUTERMOST, on_failure="open", shadow=True
        )
        yield hook("around_inference", tracer.around_inference, **options)
        yield hook("around_tool_use", tracer.around_tool_use, **options)
        start = HookOptions(name=self.name, scope="tree", on_failure="open")
        yield msgspec.structs.replace(
            hook("execution_start", tracer.link, **start), each_process=True
        )

    def configure(self, builder: AgentBuilder) -> None:
        """Hear the records."""
        if self._tracer is not None:
            builder.on_event(self._tracer)

    def notes(self, definition: Definition) -> tuple[Note, ...]:  # noqa: ARG002 - one note for all agents
        """Say when nothing is sent."""
        if self._tracer is not None:
            return ()
        return (
            Note(
                "no exporter is configured, so nothing is traced.",
                remedy="Set OTEL_EXPORTER_OTLP_ENDPOINT, or the global provider, before the agent is built.",
            ),
        )
