"""Containers, clusters, hosts of code, clouds: the verbs that only look."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from hookline.containment.shell.options import Call, Options, Program, more, only
from hookline.containment.shell.tables.checks import first_word
from hookline.containment.shell.words import Word


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
    """All about a container is also what it was given to know: its passwords, more often than not."""
    formats = call.values("-f", "--format")
    plain = formats and not any(re.search("[{}]", _ABOUT_CONTAINER.sub("", one)) for one in formats)
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
_COMPOSE = Program(  # other verbs read the project's file, and fetch what it includes, with variables put in
    only(),
    {
        "ls": only("-a -q --all --quiet", texts="--format --filter"),
        "version": only("--short", texts="-f --format"),
    },
    reads=False,
)
_DOCKER_VERBS: dict[str, Options | Program] = {
    **_verbs(
        """
        ps images stats port container*ls container*ps container*list container*port container*stats image*ls image*list
        network*ls network*list volume*ls volume*list system*df context*ls context*list context*show buildx*ls
        plugin*ls node*ls node*ps service*ls service*ps stack*ls stack*services stack*ps
        buildx*version
        """,
        _DOCKER_LISTS,
    ),
    **_verbs("logs container*logs", _DOCKER_LOGS),
    **_verbs("inspect container*inspect", _INSPECT_ENVIRONMENT),
    **_verbs("image*inspect network*inspect volume*inspect", _INSPECT),
    **_verbs("version info system*info", only(texts="-f --format")),
    **_verbs("diff container*diff", only()),
    "events": only(texts="-f --filter --format --since --until"),
    **_verbs(
        "history image*history",
        only("-q --quiet --no-trunc", texts="--format --platform", maybe="-H --human"),
    ),
    **_verbs("top container*top", only(operands=1)),
    "compose": _COMPOSE,
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

# --- clouds ---------------------------------------------------------------------------------------

_AWS_SHOWS_SECRETS = frozenset("secretsmanager ssm lambda cognito-idp codebuild kms".split())
_AWS_SHOWS = re.compile(
    r"ecs describe-task.*|elasticbeanstalk describe-configuration.*|apprunner .*|batch describe-job.*|amplify .*"
    r"|sagemaker describe-.*|ec2 describe-launch-template-versions|ec2 describe-instance-attribute|glue .*"
    r"|autoscaling describe-launch-configurations|opsworks .*|codepipeline list-webhooks|datapipeline .*"
)
"""What prints the environment, or the start-up script, that something is given."""
_AWS_TEXTS = """
    --region --output --query --profile --color --max-items --page-size --starting-token --max-results --limit --filters
    --filter --instance-ids --group-ids --group-names --vpc-ids --subnet-ids --image-ids --volume-ids --snapshot-ids
    --owners --owner-ids --bucket --key --prefix --delimiter --cluster --clusters --services --tasks --service-name
    --log-group-name --log-group-name-prefix --log-group-name-pattern --log-stream-name-prefix --order-by --table-name
    --stack-name --user-name --role-name --group-name --policy-arn --db-instance-identifier --load-balancer-arns --names
    --target-group-arn --hosted-zone-id --queue-name-prefix --topic-arn --name --repository-name
    --auto-scaling-group-names --namespace --metric-name --alarm-names --distribution-id --certificate-arn
    --repository-names --key-names --availability-zones --allocation-ids --route-table-ids --nat-gateway-ids
    --internet-gateway-ids
"""


def _aws(call: Call) -> str | None:
    reads = any(re.match(r"(file|fileb|https?)://", word.text) for word in call.words)
    return "it may show a file, or use the network" if reads else None


class _Described(Mapping[str, Options]):
    """The verbs of aws: a service and directly after it what describes or lists."""

    options = only(
        "--no-cli-pager --no-paginate --recursive --human-readable --summarize --all --include-all-instances",
        texts=_AWS_TEXTS,
        bundles=False,
        check=_aws,
    )
    examples = (
        *(
            "ec2 describe-instances",
            "s3 ls",
            "sts get-caller-identity",
            "iam get-user",
            "iam get-role",
        ),
        *("configure list", "configure list-profiles"),
        *("iam get-policy", "s3api head-object", "s3api head-bucket", "s3api get-bucket-location"),
        "s3api get-bucket-versioning",
    )

    def __getitem__(self, verb: str) -> Options:
        service, _, asked = verb.partition(" ")
        describes = re.fullmatch(r"(describe|list)-[a-z0-9-]+", asked)
        shows = service in _AWS_SHOWS_SECRETS or _AWS_SHOWS.fullmatch(verb)
        if verb in self.examples or (describes and not shows):
            return self.options
        raise KeyError(verb)

    def __iter__(self) -> Iterator[str]:
        return iter(self.examples)

    def __len__(self) -> int:
        return len(self.examples)


_CLOUD = only(
    "--all --quiet --enabled --available",
    texts="""
    --freshness --order
    --format --project --filter --limit --region --zone --zones --regions --sort-by -o --output -g --resource-group -n
    --name --query --subscription
    """,
    check=lambda call: (
        "it may take words from a file"
        if any(word.start.startswith("@") or not word.start for word in call.words)
        else None
    ),
)
_CLOUD_TABLE = msgspec.structs.replace(_CLOUD, texts=_CLOUD.texts - {"--format"})
_GCLOUD = """
    projects*list config*list auth*list services*list compute*zones*list compute*regions*list container*clusters*list
    sql*instances*list app*services*list storage*buckets*list config*get-value config*configurations*list version
    projects*describe logging*read info
"""
_GCLOUD_TABLES = "functions*list run*services*list app*versions*list compute*instances*list"
"""In another format than a table, they print environments and start-up scripts."""
_AZ = """
    account*list account*show account*list-locations group*list group*show vm*list vm*show aks*list aks*show webapp*list
    acr*list resource*list network*vnet*list network*nsg*list network*public-ip*list network*nic*list
    storage*account*list storage*account*show keyvault*list functionapp*list appservice*plan*list cosmosdb*list
    sql*server*list disk*list version
"""


def _at_home(call: Call) -> str | None:
    """A database of this machine, or one that is a file here."""
    here = {"localhost", "127.0.0.1", "::1", "/tmp", "/var/run/postgresql"}
    far = [host for host in call.values("-h", "--host") if host not in here]
    return "it uses the network" if far else None


SERVICES: dict[str, Program] = {
    **dict.fromkeys(("docker", "podman"), Program(only(), _DOCKER_VERBS, reads=False)),
    "docker-compose": _COMPOSE,
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
                "list ls history version repo*list search*repo dependency*list dep*list",
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
            "api": only(
                "--paginate --slurp --verbose -i --include --silent",
                texts="-q --jq -t --template -X --method -H --header",
                check=_gh_api,
            ),
        },
        reads=False,
    ),
    "aws": Program(
        only("--no-cli-pager", texts="--region --output --query --profile --color", bundles=False),
        _Described(),
        reads=False,
    ),
    "gcloud": Program(
        only(), {**_verbs(_GCLOUD, _CLOUD), **_verbs(_GCLOUD_TABLES, _CLOUD_TABLE)}, reads=False
    ),
    "az": Program(only(), _verbs(_AZ, _CLOUD), reads=False),
    "terraform": Program(
        only(),
        {
            "version": only("-json", bundles=False),
            "fmt": only("-check -recursive", needs="-check", bundles=False, shows=False),
        },
        reads=False,
    ),
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
    "minikube": Program(only(), _verbs("status ip version", only(operands=0)), reads=False),
}
