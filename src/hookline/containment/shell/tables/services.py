"""Containers, clusters, hosts of code, services: the verbs that only look."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookline.containment.shell.options import Options, Program, only, operands_of
from hookline.containment.shell.words import Word

_DOCKER = only(
    "-a --all -q --quiet -f --follow --no-trunc --format --filter -n --tail --since --until -t --timestamps --details -l --latest -s --size"
    " --digests --no-stream --type --tree -H --human --verbose -v --services --orphans --status --no-color --no-log-prefix",
    takes="-n --tail --since --until --format --filter --type --status",
)
_DOCKER_VERBS = """
    ps images logs inspect version info top stats port diff history
    container*ls container*ps container*list container*inspect container*logs container*top container*port container*stats container*diff
    image*ls image*list image*inspect image*history network*ls network*list network*inspect volume*ls volume*list volume*inspect
    system*df system*info context*ls context*show context*list manifest*inspect buildx*ls buildx*version
    compose*ps compose*ls compose*logs compose*images compose*top compose*version compose*port
"""

_KUBECTL_TAKES = (
    "-n --namespace -o --output -l --selector --field-selector --sort-by --tail --since --since-time -c --container --context --cluster"
    " -L --label-columns --limit-bytes --max-log-requests --chunk-size --api-group --for --types"
)
_KUBECTL = (
    "-A --all-namespaces -w --watch --watch-only --show-labels --no-headers --show-kind --previous -p --timestamps --all-containers --prefix"
    " --show-events --ignore-not-found --recursive --namespaced --client --short --containers --use-protocol-buffers --minify --verbs"
)


def _no_secrets(words: Sequence[Word]) -> str | None:
    for word in operands_of(only(takes=_KUBECTL_TAKES), words):
        if re.search(r"(^|[,/.])secrets?($|[,/.])", word.text.lower()):
            return "it may show secrets"
    return None


def _kubectl(more: str = "") -> Options:
    return only(f"{_KUBECTL} {more}", takes=_KUBECTL_TAKES, check=_no_secrets)


_GH = only(
    "--json --jq -q --template -t --limit -L --state -s --repo -R --author -A --assignee -a --label -l --comments -c --search -S --base -B"
    " --head -H --log --log-failed --job -j --name-only --patch --color --branch -b --status --user -u --draft -d --milestone -m --mention"
    " --app --exit-status --attempt --verbose -v --yaml -y --watch --required --order --sort --owner --language --source --fork --no-archived"
    " --visibility --topic --exclude-drafts --event -e --commit --created --files --raw -r --filename -f --hostname --active",
)
_GH_VERBS = """
    pr*view pr*list pr*status pr*diff pr*checks issue*view issue*list issue*status repo*view repo*list release*view release*list run*view
    run*list workflow*view workflow*list label*list gist*list gist*view search*prs search*issues search*repos search*commits search*code
    auth*status project*list project*view cache*list status org*list ruleset*list ruleset*view variable*list secret*list
"""


def _gh_api(words: Sequence[Word]) -> str | None:
    paths = [
        word.text
        for word in words
        if re.match(r"/?(repos|user|users|orgs|search|rate_limit|gists)(/|$)", word.text)
    ]
    return None if len(paths) == 1 else "it may change something, or call another host"


def _systemctl(words: Sequence[Word]) -> str | None:
    return None if all(word.exact for word in words) else "a unit is not known"


_UNITS = only(
    "--no-pager -l --full -a --all --user --system --type -t --state --failed -q --quiet --plain --no-legend -n --lines -o --output -p"
    " --property --value --reverse -r",
    takes="-t -n -o -p --type --state --lines --property",
    check=_systemctl,
)


def _verbs(names: str, options: Options) -> dict[str, Options]:
    return {name.replace("*", " "): options for name in names.split()}


def _read_only_call(words: Sequence[Word]) -> str | None:
    """`aws`: a service, and a verb that describes or lists."""
    names = [word.text for word in words if word.exact and not word.text.startswith("-")]
    if names[:2] == ["sts", "get-caller-identity"] or names[:2] == ["s3", "ls"]:
        return None
    if (
        len(names) > 1
        and re.match(r"(describe|list)-", names[1])
        and names[0] not in {"secretsmanager", "ssm"}
    ):
        return None
    return "it may change or show something"


SERVICES: dict[str, Program] = {
    "docker": Program(only("--version -v"), _verbs(_DOCKER_VERBS, _DOCKER), reads=False),
    "podman": Program(only("--version -v"), _verbs(_DOCKER_VERBS, _DOCKER), reads=False),
    "docker-compose": Program(
        only("--version -v", takes="-f -p --file --project-name"),
        _verbs("ps ls logs images top version port", _DOCKER),
        reads=False,
    ),
    "kubectl": Program(
        only(takes="-n --namespace --context --cluster"),
        {
            **_verbs(
                "get describe top*pod top*pods top*node top*nodes explain api-resources api-versions version events",
                _kubectl(),
            ),
            **_verbs(
                "config*get-contexts config*current-context config*get-clusters config*view auth*can-i auth*whoami",
                _kubectl(),
            ),
            **_verbs("rollout*status rollout*history", _kubectl()),
            "logs": _kubectl("-f --follow"),
            "cluster-info": only(operands=0),
        },
        reads=False,
    ),
    "helm": Program(
        only(takes="-n --namespace"),
        _verbs(
            "list ls status history version search*repo repo*list show*chart show*readme",
            only(
                "-n --namespace -A --all-namespaces -o --output -a --all --short -q --versions -l",
                takes="-n -o --namespace --output",
            ),
        ),
        reads=False,
    ),
    "gh": Program(
        only("--version --help"),
        {
            **_verbs(_GH_VERBS, _GH),
            "api": only(
                "--jq -q --paginate --slurp --template -t --verbose -i --include",
                takes="-q --jq -t --template",
                check=_gh_api,
            ),
        },
        reads=False,
    ),
    "systemctl": Program(
        only(
            "--no-pager --user --system -l --full --version -a --all --failed",
            takes="-t --type --state",
        ),
        _verbs(
            "status is-active is-enabled is-failed list-units list-unit-files list-timers list-sockets list-dependencies show cat get-default is-system-running",
            _UNITS,
        ),
        reads=False,
    ),
    "journalctl": Program(
        only(
            "-f --follow --no-pager -b --boot -k --dmesg -e -x -r --reverse -a --all -q --quiet --utc --user --system --disk-usage --list-boots"
            " --no-hostname --no-full --no-tail --since --until -S -U -u --unit -n --lines -p --priority -o --output -t --identifier -g --grep",
            takes="-u --unit -n --lines -p --priority -o --output -S --since -U --until -t -g",
        ),
        reads=False,
    ),
    "aws": Program(
        only(
            "--output --region --profile --query --no-cli-pager --no-paginate --max-items --filters --recursive --human-readable --summarize --version",
            takes="--region --output --query --profile",
            check=_read_only_call,
        ),
        reads=False,
    ),
    "terraform": Program(
        only("-version --version"),
        _verbs(
            "version providers workspace*list workspace*show state*list", only("-json -no-color")
        ),
        reads=False,
    ),
    "ip": Program(
        only("-4 -6 -br -brief -c -color -s -j -json -o -d"),
        _verbs("addr a address link l route r neigh neighbor rule", only(operands=0))
        | _verbs(
            "addr*show a*show address*show link*show route*show r*show neigh*show rule*show addr*list link*list route*list",
            only(operands=2),
        ),
        reads=False,
    ),
}
