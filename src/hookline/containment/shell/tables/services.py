"""Containers, clusters, hosts of code: the verbs that only look."""

from __future__ import annotations

import re

from hookline.containment.shell.options import Call, Options, Program, more, only
from hookline.containment.shell.tables.checks import first_word, plain_names
from hookline.containment.shell.tables.clouds import CLOUDS
from hookline.containment.shell.tables.compose import COMPOSE
from hookline.containment.shell.words import Word

_NOTHING = only(operands=0)


def _verbs(names: str, options: Options) -> dict[str, Options | Program]:
    """Verbs with the same options, and `--help`. A verb of two words is written with a star between them."""
    return {name.replace("*", " "): more(options, "--help") for name in names.split()}


# --- containers -----------------------------------------------------------------------------------


_ABOUT_CONTAINER = re.compile(
    r"""
    \{\{ \s* end \s* \}\} | \{\{ \s* (?:json \s+ | range \s+ (?:\$\w+ \s* , \s* \$\w+ \s* := \s* )?)?
    (?: \. | \$\w+\. ) (?: IPAddress | Gateway | MacAddress | Source | Destination | Type | HostPort | HostIp
        | State | Name | Id | Image | Created | RestartCount | Path | Platform | Driver | Mounts | NetworkSettings
        | Config\.(?:Image|Labels|Hostname|Cmd|Entrypoint|ExposedPorts|WorkingDir|User|Healthcheck)
        | HostConfig\.(?:RestartPolicy|PortBindings|NetworkMode|Memory|NanoCpus|LogConfig|Binds) )
    (?: \.\w+ )* \s* \}\}
    """,
    re.VERBOSE,
)
"""A part of what is known about a container in which its environment is not."""


def _no_container_environment(call: Call) -> str | None:
    """A container is shown as a whole, as `kubectl describe` shows a pod; its environment alone is asked about."""
    formats = call.values("-f", "--format")
    plain = not any(re.search("[{}]", _ABOUT_CONTAINER.sub("", one)) for one in formats)
    json = any(one.strip() == "json" for one in formats)
    return None if plain and not json else "it may print the environment of a container"


_DOCKER_LISTS = only(
    "-a -q -l -s --all --quiet --no-trunc --latest --size --digests --tree --no-stream -v --verbose --cluster",
    texts="-f -n --filter --format --last",
)
_DOCKER_LOGS = only(
    "-f -t --timestamps --details --no-color --no-log-prefix",
    texts="-n --tail --since --until",
    maybe="--follow",
)
_INSPECT = only("-s --size -v --verbose", texts="-f --format --type")
_INSPECT_ENVIRONMENT = only(
    "-s --size", texts="-f --format --type", check=_no_container_environment
)
_DOCKER_VERBS: dict[str, Options | Program] = {
    **_verbs(
        """
        ps images stats port container*ls container*ps container*list container*port container*stats image*ls image*list
        network*ls network*list volume*ls volume*list system*df context*ls context*list context*show buildx*ls
        plugin*ls node*ls node*ps service*ls service*ps stack*ls stack*services stack*ps
        buildx*version buildx*du secret*ls config*ls pod*ps pod*ls pod*list pod*stats machine*ls machine*list
        system*connection*list
        """,
        _DOCKER_LISTS,
    ),
    **_verbs("logs container*logs service*logs", _DOCKER_LOGS),
    **_verbs("inspect container*inspect", _INSPECT_ENVIRONMENT),
    **_verbs(
        "image*inspect network*inspect volume*inspect context*inspect node*inspect plugin*inspect",
        _INSPECT,
    ),
    **_verbs("version info system*info", only(texts="-f --format")),
    **_verbs("diff container*diff buildx*inspect", only()),
    "events": only(texts="-f --filter --format --since --until"),
    **_verbs(
        "history image*history",
        only("-q --quiet --no-trunc", texts="--format --platform", maybe="-H --human"),
    ),
    **_verbs("top container*top", only(operands=1)),
    "compose": COMPOSE,
}

# --- clusters -------------------------------------------------------------------------------------

_KUBECTL_TEXTS = """
    -n --namespace -o --output -l --selector --field-selector --sort-by --tail --since --since-time -c --container
    --context --cluster -L --label-columns --limit-bytes --max-log-requests --chunk-size --api-group --for --types
    --api-version --revision --timeout --request-timeout --verbs --categories
"""
_KUBECTL_FLAGS = """
    --all-namespaces --watch --watch-only --show-labels --no-headers --show-kind --previous --timestamps
    --all-containers --prefix --show-events --ignore-not-found --recursive --namespaced --client --short --containers
    --minify --sum --show-managed-fields --output-watch-events --all-pods --ignore-errors --list --quiet
"""
_KUBECTL_VERBS = """
    get describe top*pod top*pods top*node top*nodes explain api-resources api-versions version events
    config*get-contexts config*get-users config*current-context config*get-clusters config*view auth*can-i auth*whoami
    rollout*status rollout*history
"""


def _is_open(word: Word) -> bool:
    return not word.exact and not word.start.startswith(("custom-columns=", "jsonpath="))


def _no_secrets(call: Call) -> str | None:
    """Neither secrets of the cluster, nor a file that is printed as a template."""
    if any("file=" in word.text or _is_open(word) for word in call.words):
        return "it may show a file"
    shows = any(re.search(r"(^|[,/.])secrets?($|[,/.])", text.lower()) for text in call.texts)
    return "it may show secrets" if shows else None


def _kubectl(flags: str = "") -> Options:
    return only(
        "-A -w -p -q" + flags, texts=_KUBECTL_TEXTS, maybe=_KUBECTL_FLAGS, check=_no_secrets
    )


# --- hosts of code --------------------------------------------------------------------------------

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_GH_PATH = re.compile(r"/?(repos|user|users|orgs|search|rate_limit|gists)([/?].*)?")
_GH_HEADER = re.compile(r"(?i)(accept|x-github-api-version):[^\r\n]*")


def _no_environment(call: Call) -> str | None:
    """The filters of gh can print the environment, and it holds its token."""
    shows = any(re.search(r"\benv\b|ENV", word.text) for word in call.words)
    return "its filter may print the environment" if shows else None


def _gh(call: Call) -> str | None:
    """Only at the host itself: an address may lead to any other."""
    texts = [text for text in call.texts if not text.startswith("https://github.com/")]
    far = [text for text in texts if ":" in text or text.count("/") > 1]
    away = [text for text in call.values("-R", "--repo") if not _REPOSITORY.fullmatch(text)]
    return "it may call another host" if far or away else _no_environment(call)


def _gh_api(call: Call) -> str | None:
    """One path on the host itself; `gh api` would take a whole address as well."""
    gets = all(value == "GET" for value in call.values("-X", "--method"))
    plain = all(_GH_HEADER.fullmatch(value) for value in call.values("-H", "--header"))
    path = call.texts[0] if len(call.operands) == 1 and call.operands[0].exact else ""
    climbs = ".." in path or "%" in path
    if gets and plain and not climbs and _GH_PATH.fullmatch(path):
        return _no_environment(call)
    return "it may change something, or call another host"


_GH = only(
    """
    --comments --log --log-failed --name-only --patch --draft --exit-status --verbose -v --yaml -y --watch --required
    --source --fork --no-archived --archived --exclude-drafts --exclude-pre-releases --files --raw --all
    """,
    texts="""
    --json --jq -q --template -t --limit -L --state -s --repo -R --author -A --assignee -a --label -l -c --search -S
    --base -B --head -H --job -j --color --branch -b --status --user -u -d --milestone -m --mention --app --attempt
    --order -O --sort --owner --language --visibility --topic --event -e --commit --created --filename -f -r --workflow
    --match --extension --size --updated --stars
    """,
    maybe="-c -d -r -a",  # flags, with some verbs
    check=_gh,
)
_GH_VERBS = """
    pr*view pr*list pr*status pr*diff pr*checks issue*view issue*list issue*status repo*view repo*list release*view
    release*list run*view run*list workflow*view workflow*list label*list gist*list gist*view search*prs
    search*issues search*repos search*commits search*code project*list project*view cache*list status org*list
    ruleset*list ruleset*view variable*list secret*list
"""


def _at_home(call: Call) -> str | None:
    """A database of this machine, or one that is a file here."""
    here = {"localhost", "127.0.0.1", "::1", "/tmp", "/var/run/postgresql"}
    far = [host for host in call.values("-h", "--host") if host not in here]
    return "it uses the network" if far else None


_TERRAFORM = Program(  # others start the providers that lie in the project, or print outputs
    only(),
    {
        "version": only("-json", bundles=False),
        "fmt": only("-check -recursive", needs="-check", bundles=False, shows=False),
        **_verbs("workspace*list workspace*show providers", only(operands=0)),
        "state list": only(texts="-id", bundles=False, check=plain_names(r"[\w.\[\]\"-]+")),
    },
    reads=False,
)
_GLAB = only(
    "-a -c -d -m -M -A --all --closed --merged --comments --opened --draft --not-draft --raw",
    texts="""
    -l --label -P --page -p --per-page --author --assignee -s --status --ref --search -O --output -F -b --branch
    """,
    check=plain_names(r"[\w./-]+"),
)


def _plain(*verbs: str, options: Options = _NOTHING) -> Program:
    """A program of which some verbs only look."""
    return Program(only(), _verbs(" ".join(verbs), options), reads=False)


SERVICES: dict[str, Program] = {
    "docker": Program(only(), _DOCKER_VERBS, reads=False),
    "podman": Program(  # it starts whatever composes there
        only(),
        {verb: options for verb, options in _DOCKER_VERBS.items() if verb != "compose"},
        reads=False,
    ),
    "docker-compose": COMPOSE,
    "nerdctl": Program(
        only(texts="-n --namespace"),
        {verb: options for verb, options in _DOCKER_VERBS.items() if verb != "compose"},
        reads=False,
    ),
    "crictl": Program(
        only(),
        {
            **_verbs(
                "ps pods images img stats statsp version info imagefsinfo",
                only(
                    "-a -q -v --all --quiet --verbose --no-trunc --latest --digests",
                    texts="-o --output --name --namespace --state --pod --label --image --id --last -n -s -p",
                ),
            ),
            **_verbs(
                "logs", only("-f -t -p --follow --timestamps --previous", texts="--tail --since")
            ),
            **_verbs("inspecti inspectp", only("-q", texts="-o --output")),
        },
        reads=False,
    ),
    "kubectl": Program(
        only(texts="-n --namespace --context --cluster"),
        {
            **_verbs(_KUBECTL_VERBS, _kubectl()),
            "logs": _kubectl(" -f --follow"),
            "cluster-info": only(operands=0),
            "completion": only(check=first_word("bash|zsh|fish|powershell")),
        },
        reads=False,
    ),
    "helm": Program(
        only(texts="-n --namespace"),
        {
            **_verbs(
                "list ls history version repo*list search*repo dependency*list dep*list plugin*list plugin*ls",
                only(
                    "-A -a -q -d -r --all-namespaces --all --short --versions --deployed --failed --pending --reverse",
                    texts="-n -o -l -f -m --namespace --output --max --filter --selector --offset --revision",
                ),
            ),
            # with -o it prints what the release was given
            **_verbs("status", only("--show-desc", texts="-n --namespace --revision")),
        },
        reads=False,
    ),
    "gh": Program(
        only(),
        {
            **_verbs(_GH_VERBS, _GH),
            "auth status": only("--active -a"),
            **_verbs("extension*list alias*list config*list", _NOTHING),
            "config get": only(
                operands=1, check=plain_names("editor|git_protocol|prompt|pager|browser")
            ),
            "browse": only("-n --no-browser", needs="-n --no-browser", check=_gh),
            "api": only(
                "--paginate --slurp --verbose -i --include --silent",
                texts="-q --jq -t --template -X --method -H --header",
                check=_gh_api,
            ),
        },
        reads=False,
    ),
    **dict.fromkeys(("terraform", "tofu"), _TERRAFORM),
    "kind": Program(
        only(), _verbs("get*clusters get*nodes version", only(texts="--name")), reads=False
    ),
    "pg_isready": Program(
        only(
            "-q --quiet",
            texts="-h -p -U -t --host --port --username --timeout",
            operands=0,
            check=_at_home,
        ),
        reads=False,
    ),
    "minikube": _plain(
        "status ip version profile*list addons*list service*list node*list image*ls"
    ),
    **dict.fromkeys(("kubectx", "kubens"), Program(only("-c --current", operands=0), reads=False)),
    "k3d": _plain(
        "cluster*list cluster*ls node*list registry*list version",
        options=only("--no-headers", texts="-o"),
    ),
    "istioctl": _plain(
        "version proxy-status ps", options=only("--short --remote", texts="-o -n --namespace")
    ),
    "argocd": _plain(
        "app*list app*get app*history cluster*list repo*list proj*list version",
        options=only("--client", texts="-o -p -l"),
    ),
    "flux": _plain(
        "get*all get*sources get*kustomizations get*helmreleases check stats version",
        options=only("-A --all-namespaces --pre --client", texts="-n --namespace"),
    ),
    "glab": Program(
        only(),
        {
            **_verbs(
                """
                mr*list mr*view mr*diff issue*list issue*view ci*status ci*list ci*get pipeline*status pipeline*list
                release*list release*view repo*view repo*list project*view label*list milestone*list
                """,
                _GLAB,
            ),
            "version": _NOTHING,
        },
        reads=False,
    ),
    "pm2": Program(
        only(),
        {
            **_verbs("list ls l ps status", only("-m --mini-list", operands=0)),
            "logs": only(
                "--nostream --raw --timestamp --err --out", texts="--lines", check=plain_names()
            ),
        },
        reads=False,
    ),
    "ansible-doc": Program(
        only("-l -s -j --list --snippet --json", texts="-t --type", check=plain_names()),
        reads=False,
    ),
    "supervisorctl": _plain("status version avail", options=only(check=plain_names(r"[\w:*-]+"))),
    "nomad": _plain(
        "status node*status job*status server*members", options=only(check=plain_names())
    ),
    "consul": _plain("members catalog*services catalog*nodes"),
    "vault": _plain("status"),
    "ansible-galaxy": _plain("list collection*list role*list"),
    "ansible-config": _plain("list dump view"),
    **CLOUDS,
}
