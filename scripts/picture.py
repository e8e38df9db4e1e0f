"""Draw docs/timeline.svg: the journal of examples/first_agent.py as a timeline.

    .venv/bin/python scripts/picture.py

The run is real and its clock is a fake one, so the picture comes out the same every time.
"""

import runpy
import sys
from pathlib import Path
from typing import Any

from hookline.journal import Record
from hookline.pages import draw_run
from hookline.testing import FakeClock

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "first_agent.py"
PICTURE = ROOT / "docs" / "timeline.svg"
PROMPT = "Clean up build/."
SECONDS = {"the model": 1.2, "list_files": 1.4, "delete": 2.4}  # on the fake clock


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}", file=sys.stderr)


def picture() -> str:
    """The picture of the example's run."""
    return draw_run(journal())


def journal() -> list[Record]:
    """Run the example on a fake clock, on which models and tools take their time, and give its journal."""
    clock = FakeClock()

    async def think(ctx: Any, call_next: Any) -> Any:
        clock.advance(SECONDS["the model"])
        return await call_next(ctx)

    async def work(ctx: Any, call_next: Any) -> Any:
        clock.advance(SECONDS[ctx.tool_call.name])
        return await call_next(ctx)

    builder = runpy.run_path(str(EXAMPLE))["describe"]()
    agent = builder.with_clock(clock).around_inference(think).around_tool_use(work).build()
    return list(agent.run_sync(PROMPT).records)


if __name__ == "__main__":
    import environment

    environment.argument_parser(__doc__).parse_args()
    main()
