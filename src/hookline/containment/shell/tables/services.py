"""Containers, clusters, hosts of code, services: the verbs that only look."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookline.containment.shell.options import Options, Program, only, operands_of
from hookline.containment.shell.words import Word


def _verbs(names: str, options: Options) -> dict[str, Options]:
    """Verbs with the same options. A verb of two words is written with a star between them."""
    return {name.replace("*", " "): options for name in names.split()}


# --- containers -----------------------------------------------------------------------------------

_DOCKER = only(
    """
    -a --all -q --quiet -f --follow --no-trunc -t --timestamps --details -l --latest -s --size --digests --no-stream
    --tree --human --verbose -v --services --orphans --no-color --no-log-prefix
    """,
    takes="-n --tail --since --until --format --filter --type --status",
)
_DOCKER_VERBS = """
    ps images logs inspect version info top stats port diff history
    container*ls container*ps container*list container*inspect container*logs container*top container*port
    container*stats container*diff image*ls image*list image*inspect image*history network*ls network*list
    network*inspect volume*ls volume*list volume*inspect system*df system*info context*ls context*show context*list
    buildx*ls buildx*version compose*ps compose*ls compose*logs compose*images compose*top compose*version compose*port
"""
_COMPOSE_VERBS = "ps ls logs images top version port"

# --- clusters -------------------------------------------------------------------------------------

_KUBECTL_TAKES = """
    -n --namespace -o --output -l --selector --field-selector --sort-by --tail --since --since-time -c --container
    --context --cluster -L --label-columns --limit-bytes --max-log-requests --chunk-size --api-group --for --types
"""
_KUBECTL = """
    -A --all-namespaces -w --watch --watch-only --show-labels --no-headers --show-kind --previous -p --timestamps
    --all-containers --prefix --show-events --ignore-not-found --recursive --namespaced --client --short --containers
    --minify --verbs
"""
_KUBECTL_VERBS = """
    get describe top*pod top*pods top*node top*nodes explain api-resources api-versions version events
    config*get-contexts config*current-context config*get-clusters config*view auth*can-i auth*whoami
    rollout*status rollout*history
"""
_HELM = only(
    "-A --all-namespaces -a --all --short -q --versions -l", takes="-n -o --namespace --output"
)


def _no_secrets(words: Sequence[Word]) -> str | None:
    """Neither secrets of the cluster, nor a file that is printed as a template."""
    if any("file=" in word.text or not word.exact for word in words):
        return "it may show a file"
    for word in operands_of(only(takes=_KUBECTL_TAKES), words):
        if not word.exact or re.search(r"(^|[,/.])secrets?($|[,/.])", word.text.lower()):
            return "it may show secrets"
    return None


def _kubectl(more: str = "") -> Options:
    return only(_KUBECTL + more, takes=_KUBECTL_TAKES, check=_no_secrets)


# --- hosts of code --------------------------------------------------------------------------------


def _no_environment(words: Sequence[Word]) -> str | None:
    """The filters of gh can print the environment, and it holds its token."""
    shows = any(re.search(r"\benv\b|ENV", word.text) for word in words)
    return "its filter may print the environment" if shows else None


_GH = only(
    """
    --json --jq -q --template -t --limit -L --state -s --repo -R --author -A --assignee -a --label -l --comments -c
    --search -S --base -B --head -H --log --log-failed --job -j --name-only --patch --color --branch -b --status
    --user -u --draft -d --milestone -m --mention --app --exit-status --attempt --verbose -v --yaml -y --watch
    --required --order --sort --owner --language --source --fork --no-archived --visibility --topic --exclude-drafts
    --event -e --commit --created --files --raw -r --filename -f --workflow
    """,
    check=_no_environment,
)
_GH_VERBS = """
    pr*view pr*list pr*status pr*diff pr*checks issue*view issue*list issue*status repo*view repo*list release*view
    release*list run*view run*list workflow*view workflow*list label*list gist*list gist*view search*prs
    search*issues search*repos search*commits search*code project*list project*view cache*list status org*list
    ruleset*list ruleset*view variable*list secret*list
"""
_GH_PATH = re.compile(r"/?(repos|user|users|orgs|search|rate_limit|gists)([/?].*)?")


def _gh_api(words: Sequence[Word]) -> str | None:
    """One path on the host itself; `gh api` would take a whole address as well."""
    names = [word.text for word in operands_of(only(takes="-q --jq -t --template"), words)]
    if len(names) == 1 and _GH_PATH.fullmatch(names[0]):
        return _no_environment(words)
    return "it may change something, or call another host"


# --- services and clouds --------------------------------------------------------------------------


def _no_unit_environment(words: Sequence[Word]) -> str | None:
    """Everything about a unit, or the manager, is also what it was given to know."""
    named = any(re.match("-p|--property", word.start) for word in words)
    shows = any("env" in word.text.lower() for word in words)
    return None if named and not shows else "it may print the environment of a service"


_UNITS = only(
    """
    --no-pager -l --full -a --all --user --system --failed -q --quiet --plain --no-legend --value --reverse -r
    """,
    takes="-t -n -o -p --type --state --lines --output --property",
)
_SHOWN_UNITS = only(
    "--no-pager --user --system --value", takes="-p --property", check=_no_unit_environment
)
_UNIT_VERBS = """
    status is-active is-enabled is-failed list-units list-unit-files list-timers list-sockets list-dependencies cat
    get-default is-system-running
"""


_AWS_TAKES = "--region --output --query --profile"
_AWS_SHOWS_SECRETS = frozenset("secretsmanager ssm lambda cognito-idp codebuild kms".split())


def _aws(words: Sequence[Word]) -> str | None:
    """A service and directly after it a verb that describes or lists; before them only options that are known."""
    at = 0
    while at < len(words) and words[at].start.startswith("-"):
        name, equals, _ = words[at].text.partition("=")
        at += 2 if name in _AWS_TAKES.split() and not equals else 1
    names = [word.text for word in words[at : at + 2]]
    if any(re.match(r"(file|fileb|https?)://", word.text) for word in words):
        return "it may show a file, or use the network"
    if not all(word.exact for word in words[: at + 2]):
        return "it cannot be said what it is asked"
    if names in (["sts", "get-caller-identity"], ["s3", "ls"]):
        return None
    describes = len(names) > 1 and re.match("(describe|list)-", names[1])
    if describes and names[0] not in _AWS_SHOWS_SECRETS and not names[0].startswith("-"):
        return None
    return "it may change something, or show a secret"


SERVICES: dict[str, Program] = {
    **dict.fromkeys(
        ("docker", "podman"),
        Program(
            only(),
            _verbs(_DOCKER_VERBS, _DOCKER) | _verbs("top container*top", only(operands=1)),
            reads=False,
        ),
    ),
    "docker-compose": Program(
        only(takes="-f -p --file --project-name"), _verbs(_COMPOSE_VERBS, _DOCKER), reads=False
    ),
    "kubectl": Program(
        only(takes="-n --namespace --context --cluster"),
        {
            **_verbs(_KUBECTL_VERBS, _kubectl()),
            "logs": _kubectl("-f --follow"),
            "cluster-info": only(operands=0),
        },
        reads=False,
    ),
    "helm": Program(
        only(takes="-n --namespace"),
        _verbs("list ls status history version repo*list", _HELM),
        reads=False,
    ),
    "gh": Program(
        only(),
        {
            **_verbs(_GH_VERBS, _GH),
            "auth status": only("--active", takes="--hostname"),
            "api": only(
                "--paginate --slurp --verbose -i --include",
                takes="-q --jq -t --template",
                check=_gh_api,
            ),
        },
        reads=False,
    ),
    "systemctl": Program(
        only("--no-pager --user --system -l --full -a --all --failed", takes="-t --type --state"),
        {**_verbs(_UNIT_VERBS, _UNITS), "show": _SHOWN_UNITS},
        reads=False,
    ),
    "journalctl": Program(
        only(
            """
            -f --follow --no-pager -b --boot -k --dmesg -e -x -xe -r --reverse -a --all -q --quiet --utc --user --system
            --disk-usage --list-boots --no-hostname --no-full --no-tail
            """,
            takes="""
            -u --unit -n --lines -p --priority -o --output -S --since -U --until -t --identifier -g --grep
            """,
        ),
        reads=False,
    ),
    "aws": Program(
        only(
            """
            --no-cli-pager --no-paginate --recursive --human-readable --summarize
            """,
            takes=f"{_AWS_TAKES} --max-items --filters",
            check=_aws,
        ),
        reads=False,
    ),
    "terraform": Program(only(), {"version": only("-json")}, reads=False),
    "ip": Program(
        only("-4 -6 -br -brief -c -color -s -j -json -o -d"),
        _verbs("addr a address link l route r neigh neighbor rule", only(operands=0))
        | _verbs("addr*show a*show address*show link*show route*show r*show", only(operands=2))
        | _verbs("neigh*show rule*show addr*list link*list route*list", only(operands=2)),
        reads=False,
    ),
}
