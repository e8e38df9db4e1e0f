"""Show the trace of an agent in Phoenix, a viewer for traces of language models.

    python3 scripts/phoenix.py            install Phoenix, start it, run an agent, and show where its trace is
    python3 scripts/phoenix.py --check    end again when the trace has arrived; exit status 1 if it does not

Phoenix and Hookline are installed in .phoenix, an environment of their own. It takes some minutes and about 1 GB.
Phoenix takes traces only, no metrics. It answers on 127.0.0.1, and its data ends with the script.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

import environment

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".phoenix"
PACKAGES = ("arize-phoenix>=12", f"{ROOT}[otel]")
AGENT = """
from hookline import AgentBuilder, HookOutcome, tool
from hookline.capabilities import OpenTelemetry, Subagent, Subagents
from hookline.testing import ScriptedDriver, call, calls, say

@tool
def price(item: str) -> int:
    "Look up a price."
    if item == "nothing":
        raise LookupError("there is no price for nothing")
    return 12

def no_gold(ctx):
    gold = ctx.tool_call.args.get("item") == "gold"
    return HookOutcome.block("not for sale") if gold else None

helper = AgentBuilder().with_id("helper").with_driver(ScriptedDriver([say("Green tea.")])).build()
first = calls(*(call("price", item=item) for item in ("tea", "gold", "nothing")))
turns = [first, call("spawn_subagent", agent="helper", prompt="Which tea?"), say("Tea costs 12.")]
agent = (
    AgentBuilder()
    .with_id("shop")
    .with_driver(ScriptedDriver(turns))
    .with_tools(price)
    .with_capability(Subagents(Subagent("helper", "Knows tea.", agent=helper)))
    .with_capability(OpenTelemetry(content=True))
    .on_before_tool_use(no_gold, tier="policy")
    .build()
)
print(agent.run_sync("What does tea cost?").explain())
"""
QUERY = """{ projects { edges { node { name traceCount
  spans(first: 50) { edges { node { name spanKind statusCode } } } } } } }"""


def main() -> int:
    """Do all of it."""
    parser = environment.argument_parser(__doc__)
    parser.add_argument("--check", action="store_true", help="end when the trace has arrived")
    parser.add_argument("--port", type=int, default=6006, help="of Phoenix (6006)")
    options = parser.parse_args()
    python = install()
    url = f"http://127.0.0.1:{options.port}"
    with tempfile.TemporaryDirectory() as data:
        variables = {
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(options.port),
            "PHOENIX_WORKING_DIR": data,
            "PHOENIX_TELEMETRY_ENABLED": "false",
        }
        server = start([python, "-m", "phoenix.server.main", "serve"], variables)
        try:
            wait_for(url, server)
            traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_METRICS_EXPORTER": "none"}
            run([python, "-c", AGENT], traced)
            spans = wait_for_spans(url)
            print(*(f"  {each}" for each in spans), sep="\n")
            print(f"{len(spans)} spans have arrived. See them: {url}")
            if not options.check:
                print("Ctrl-C ends Phoenix.")
                server.wait()
            return 0 if spans else 1
        except KeyboardInterrupt:
            return 0
        finally:
            server.terminate()
            server.wait()


def install() -> str:
    """The Python of the environment, with Phoenix in it."""
    python = str(PLACE / "bin" / "python")
    if not Path(python).exists():
        print(f"making {PLACE}, which takes some minutes")
        venv.create(PLACE, with_pip=True)
    run([python, "-m", "pip", "install", "--quiet", *PACKAGES], {})
    return python


def run(command: list[str], variables: dict[str, str]) -> None:
    """Run a program; if it fails, so does this one."""
    subprocess.run(command, env={**os.environ, **variables}, check=True)


def start(command: list[str], variables: dict[str, str]) -> "subprocess.Popen[bytes]":
    """Start a program, whose words go to a file."""
    log = (PLACE / "log").open("wb")
    return subprocess.Popen(command, env={**os.environ, **variables}, stdout=log, stderr=log)


def wait_for(url: str, server: "subprocess.Popen[bytes]") -> None:
    """Wait until the server answers."""
    for _ in range(300):
        if server.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=5):
                return
        except OSError:
            time.sleep(1)
    sys.exit(f"Phoenix does not answer at {url}; see {PLACE / 'log'}.")


def wait_for_spans(url: str) -> list[str]:
    """The spans that Phoenix has, as soon as the run is among them: its span is the last to end."""
    spans: list[str] = []
    for _ in range(60):
        body = json.dumps({"query": QUERY}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{url}/graphql", body, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            projects = json.load(answer)["data"]["projects"]["edges"]
        nodes = [each["node"] for project in projects for each in project["node"]["spans"]["edges"]]
        spans = [f"{each['name']} ({each['statusCode']})" for each in nodes]
        if any(each.startswith("invoke_agent shop") for each in spans):
            return spans
        time.sleep(1)
    return []


if __name__ == "__main__":
    sys.exit(main())
