"""Clouds: what lists and describes, by the class of the verb, without what prints keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from hookline.containment.shell.options import Call, Options, Program, more, only
from hookline.containment.shell.tables.checks import plain_names


def _verbs(names: str, options: Options) -> dict[str, Options | Program]:
    """Verbs with the same options, and `--help`. A verb of two words is written with a star between them."""
    return {name.replace("*", " "): more(options, "--help") for name in names.split()}


class _Class(Mapping[str, Options]):
    """Verbs that are known by what they are called, more of them than could be written down."""

    examples: tuple[str, ...] = ()

    def find(self, verb: str) -> Options | None:
        """The options of a verb, if it is one that only looks."""
        raise NotImplementedError

    def __getitem__(self, verb: str) -> Options:
        options = self.find(verb)
        if options is None:
            raise KeyError(verb)
        return options

    def __iter__(self) -> Iterator[str]:
        return iter(self.examples)

    def __len__(self) -> int:
        return len(self.examples)


# --- aws ------------------------------------------------------------------------------------------

_AWS_SHOWS_SECRETS = frozenset("secretsmanager lambda cognito-identity sso-oidc sso".split())
_AWS_SHOWS = re.compile(
    r"ecs describe-task.*|elasticbeanstalk describe-configuration.*|apprunner .*|batch describe-job.*|amplify .*"
    r"|sagemaker describe-.*|ec2 describe-launch-template-versions|ec2 describe-instance-attribute|glue .*"
    r"|autoscaling describe-launch-configurations|opsworks .*|codepipeline list-webhooks|datapipeline .*"
    r"|cognito-idp describe-(?:user-pool-client|identity-provider)|ssm list-command.*|storagegateway describe-chap.*"
    r"|ec2 describe-(?:vpn-connections|spot-fleet-requests|spot-instance-requests)|appsync list-api-keys"
    r"|robomaker describe-.*|directconnect describe-virtual-interfaces|dms describe-endpoints|mq describe-user"
)
"""What prints the environment, the start-up script, or a key, that something is given."""
_AWS_GETS = frozenset(
    """
    accessanalyzer apigateway apigatewayv2 athena autoscaling backup budgets ce cloudformation cloudfront cloudtrail
    cloudwatch compute-optimizer config dynamodbstreams ec2 ecr elasticache elbv2 events guardduty health iam inspector2
    kms logs macie2 organizations pricing resource-groups resourcegroupstaggingapi route53 route53domains s3api
    s3control
    savingsplans securityhub service-quotas ses sesv2 sns sqs support waf wafv2 xray
    """.split()
)
"""Services whose `get-*` was looked through; what is left out of them is told by its name."""
_AWS_GETS_MORE = re.compile(
    r"get-.*(?:credential|password|token|secret|login(?!-profile)|api-key|parameter|authoriz|presigned|user-data"
    r"|console|vpn|object$|object-torrent|sdk|export|code|template-version|download|launch-template).*"
)
"""Those that print keys, or write what they get to a file."""
_AWS_TEXTS = """
    --region --output --query --profile --color --max-items --page-size --starting-token --max-results --limit --filters
    --filter --instance-ids --group-ids --group-names --vpc-ids --subnet-ids --image-ids --volume-ids --snapshot-ids
    --owners --owner-ids --bucket --key --prefix --delimiter --cluster --clusters --services --tasks --service-name
    --log-group-name --log-group-name-prefix --log-group-name-pattern --log-stream-name-prefix --order-by --table-name
    --stack-name --user-name --role-name --group-name --policy-arn --db-instance-identifier --load-balancer-arns --names
    --target-group-arn --hosted-zone-id --queue-name-prefix --topic-arn --name --repository-name
    --auto-scaling-group-names --namespace --metric-name --alarm-names --distribution-id --certificate-arn
    --repository-names --key-names --availability-zones --allocation-ids --route-table-ids --nat-gateway-ids
    --internet-gateway-ids --log-stream-name --log-stream-names --filter-pattern --start-time --end-time
    --since --format
    --policy-name --version-id --queue-url --attribute-names --function-name --key-id --id --ids --type --status
    --statistics --period --dimensions --metrics --granularity --time-period --group-by --db-cluster-identifier
    --cluster-name --nodegroup-name --addon-name --load-balancer-arn --listener-arn --listener-arns --target-group-arns
    --load-balancer-names --instance-types --location-type --resource-arn --resource-id --resource-type --rest-api-id
    --api-id --stage-name --state-machine-arn --execution-arn --status-filter --stack-status-filter
    --logical-resource-id
    --change-set-name --template-stage --scope --path-prefix --domain-name --domain-names --pipeline-name --project-name
    --build-id --event-bus-name --rule --rule-name --name-prefix --stream-name --delivery-stream-name --file-system-id
    --cache-cluster-id --replication-group-id --trail-name-list --lookup-attributes --severity --detector-id
    --finding-ids
    --web-acl-id --launch-template-ids --instance-type --product-description --account-id --root-id --parent-id
    --target-id
    --user-pool-id --identity-pool-id --query-id --state-value --alarm-name --history-item-type --capacity-providers
    --network-interface-ids --network-acl-ids --security-group-rule-ids --dhcp-options-ids --spot-price --task-arn
    --container-instances --family-prefix --family --desired-status --launch-type --backup-vault-name --nextToken
    --vpc-endpoint-ids --vpc-peering-connection-ids --transit-gateway-ids --key-value --expected-bucket-owner
"""
_FUNCTIONS = re.compile(
    r"length\(Functions\)|Functions\[[^\]]*\]\.[\[{]?(?:[\w]+ *: *)?(?:Function(?:Name|Arn)|Runtime|Handler|MemorySize"
    r"|Timeout|LastModified|CodeSize|Version|State|Architectures|PackageType|Description|\w+ *: *|[ ,])+[\]}]?"
)
"""A part of what is known about functions in which their environment is not."""


def _aws(call: Call) -> str | None:
    reads = any(re.search(r"(file|fileb|https?)://", word.text) for word in call.words)
    return "it may show a file, or use the network" if reads else None


def _aws_functions(call: Call) -> str | None:
    queries = call.values("--query")
    plain = bool(queries) and all(map(_FUNCTIONS.fullmatch, queries))
    return _aws(call) if plain else "it may print the environment of a function"


class _Aws(_Class):
    """A service, and directly after it what describes, lists or gets."""

    options = only(
        "--no-cli-pager --no-paginate --recursive --human-readable --summarize --all --include-all-instances --follow",
        texts=_AWS_TEXTS,
        bundles=False,
        check=_aws,
    )
    asks = msgspec.structs.replace(options, operands=0)
    """A word that is no option would be the file that it is written to."""
    examples = (
        *(
            "ec2 describe-instances",
            "s3 ls",
            "sts get-caller-identity",
            "iam get-user",
            "iam get-role",
        ),
        *("configure list", "configure list-profiles", "logs tail", "logs filter-log-events"),
        *("iam get-policy", "s3api head-object", "s3api head-bucket", "s3api get-bucket-location"),
        *("s3api get-bucket-versioning", "sts get-access-key-info"),
        *("lambda list-functions", "lambda list-layers", "configure get", "help", "ec2 help"),
    )
    shown = frozenset({"s3 ls", "logs tail"})

    def find(self, verb: str) -> Options | None:
        service, _, asked = verb.partition(" ")
        if verb == "configure get":
            return only(operands=1, check=plain_names(r"(?:\w+\.)?(?:region|output)"))
        if re.fullmatch(r"(?:[a-z0-9-]+ ){0,2}help", verb):
            return only(operands=0)
        if verb in self.shown:
            return self.options
        if service == "lambda":
            return self._of_functions(asked)
        if re.fullmatch(r"(describe|list)-[a-z0-9-]+", asked):
            shows = service in _AWS_SHOWS_SECRETS or _AWS_SHOWS.fullmatch(verb)
            return None if shows else self.options
        gets = service in _AWS_GETS and re.fullmatch(r"get-[a-z0-9-]+", asked)
        if verb in self.examples or (gets and not _AWS_GETS_MORE.fullmatch(asked)):
            return self.asks
        return None

    def _of_functions(self, asked: str) -> Options | None:
        """What is known about functions holds their environment."""
        if asked in {"list-functions", "list-versions-by-function"}:
            return msgspec.structs.replace(self.asks, check=_aws_functions)
        lists = "list-(?:layers|layer-versions|aliases|event-source-mappings|tags)"
        gets = "get-(?:policy|account-settings|alias)"
        return self.asks if re.fullmatch(f"{lists}|{gets}", asked) else None


# --- gcloud, az -----------------------------------------------------------------------------------

_CLOUD = only(
    "--all --quiet --enabled --available --uri --show-deleted -d --show-details",
    texts="""
    --freshness --order --account --location --page-size --flatten --cluster --instance --database --dataset --service
    --version --folder --organization --network --zone --region --zones --regions
    --format --project --filter --limit --sort-by -o --output -g --resource-group -n
    --name --query --subscription -l --vnet-name --nsg-name --account-name --server --server-name --workspace-name
    --cluster-name --ids --resource-type --tag --namespace --offer --publisher --sku --start-time --end-time --top
    --registry --repository --scope --assignee --display-name --vault-name --resource --plan -c
    --container-name --prefix
    """,
    check=lambda call: (
        "it may take words from a file"
        if any(word.start.startswith("@") or not word.start for word in call.words)
        else None
    ),
)
_CLOUD_TABLE = msgspec.structs.replace(_CLOUD, texts=_CLOUD.texts - {"--format", "--flatten"})
_GCLOUD_GROUPS = frozenset(
    """
    accelerators access-policies active-directory addresses ai ai-platform app apps artifacts asset assets
    autoscaling backend-buckets backend-services backups bigtable billing accounts builds budgets cert-manager
    certificates channels clusters commitments components compute container contacts data-catalog databases dataflow
    dataproc datasets delivery-pipelines disk-types disks dns docker domains endpoints environments eventarc
    executions external-vpn-gateways filestore firebase firestore firewall-rules folders forwarding-rules functions
    future-reservations gateways global-operations groups health-checks hubs iam identity identity-groups images
    indexes instance-groups instance-templates instances interconnects invocations jobs keyrings kms lint-rules
    locations logging logs machine-types managed managed-zones memberships metrics models monitoring dashboards
    policies network-attachments network-endpoint-groups networks node-groups node-pools node-templates
    notification-channels operations organizations os-config packages patch-jobs projects project-info pubsub
    public-advertised-prefixes queues record-sets nats recommender redis regions releases repositories repos
    reservations
    resource-manager resource-policies revisions roles rollouts routers routes scheduler schemas scc findings
    security-policies service-accounts service-attachments services sinks snapshots snapshot-settings source sources
    spanner sql ssl-certificates ssl-policies storage buckets objects subnets subscriptions tags target-grpc-proxies
    target-http-proxies target-https-proxies target-instances target-pools target-ssl-proxies target-tcp-proxies
    targets tasks tiers topics transfer triggers unmanaged url-maps users versions views vpn-gateways vpn-tunnels
    workflows workstations worker-pools workload-identity-pools providers zones
    """.split()
)
_AZ_GROUPS = frozenset(
    """
    account ad app sp user group acr repository aks nodepool alert advisor recommendation afd endpoint apim api
    application-gateway appservice plan backup vault item job policy batch billing invoice bicep cdn cloud
    cognitiveservices config consumption usage budget cosmosdb sql mongodb database costmanagement databricks
    workspace datafactory deployment operation sub mg tenant disk disk-access dns zone record-set eventgrid topic
    event-subscription eventhubs eventhub namespace expressroute express-route extension feature firewall
    flexible-server functionapp identity image galleries sig image-definition image-version keyvault kusto
    load-balancer lb local-gateway lock log-analytics table logs maintenance managedapp management-group mariadb
    metrics alert monitor activity-log diagnostic-settings action-group autoscale mysql server db firewall-rule
    replica nat gateway network nic nsg rule private-dns private-endpoint private-link-service provider
    proximity-placement-group public-ip prefix redis resource relay restore-point role assignment definition
    route-table route search service security assessment alert pricing servicebus queue topic subscription signalr
    snapshot spot sshkey storage container blob share fs account-sas synapse tag traffic-manager profiles vm
    availability-set nodes vmss extension vnet subnet peering vnet-gateway vpn-connection signed-in-user
    watcher flow-log webapp
    slot postgres replication-set ts apps graph query version
    """.split()
) - {"account-sas", "config", "query", "container"}
_GCLOUD = """
    config*list auth*list config*configurations*list version logging*read info help
    projects*get-iam-policy builds*log app*logs*read functions*logs*read compute*instances*get-serial-port-output
    storage*ls storage*du config*configurations*describe
"""
_GCLOUD_SETTING = r"(?!(?:[a-z_]+/)?\w*(?:pass|token|key|cred))[\w/]+"
_GCLOUD_TABLES = re.compile(
    r"(functions|run( \w+)?|app versions|compute instances|compute instance-templates|container clusters) list"
)
"""In another format than a table, they print environments, start-up scripts and keys."""
_GCLOUD_SHOWS = re.compile(
    r"(alpha|beta|preview|topic) .*"
    r"|(functions|run|app versions|compute instance-templates|composer|deployment-manager) .*describe"
    r"|(container clusters|compute project-info) describe"
    r"|.*\b(keys|credentials|passwords?|tokens?|api-keys|hmac)\b.*"
)
_AZ_SHOWS = re.compile(
    r".*\b(keys?|secrets?|credentials?|tokens?|passwords?|sas|kv|appsettings|settings|certificate|profile|nv)\b.*"
    r"|.*(connection-string|publishing|admin-key|query-key|shared-key|authorization|env).*"
    r"|(container|containerapp) .*show"
    r"|(spring|logic|rest|devops|pipelines|iot|bot|staticwebapp|webapp config|functionapp config|appconfig) .*"
)
"""What prints keys, or what a service was given to know."""


_AZ_LEAVES = re.compile(
    "show|get-versions|get-upgrades"
    "|list(-(locations|sizes|skus|usage|ip-addresses|versions|offers|publishers|runtimes|deleted|instances))?"
)


class _Gcloud(_Class):
    """Groups, and at the end of them `list` or `describe`. Another verb in between would take that for a name."""

    tables: Mapping[str, Options | Program] = _verbs(_GCLOUD, _CLOUD)
    settings = frozenset({"config get-value", "config get"})
    examples = (
        *tables,
        *settings,
        "projects list",
        "compute instances list",
        "compute instances describe",
    )

    def find(self, verb: str) -> Options | None:
        if verb in self.settings:
            return only(operands=1, check=plain_names(_GCLOUD_SETTING))
        if isinstance(known := self.tables.get(verb), Options):
            return known
        first, *groups, leaf = verb.split() if " " in verb else ("", verb)
        looks = leaf in {"list", "describe"} and _GCLOUD_GROUPS.issuperset(groups)
        if not (looks and first in _GCLOUD_GROUPS | {"run"}) or _GCLOUD_SHOWS.fullmatch(verb):
            return None
        return _CLOUD_TABLE if _GCLOUD_TABLES.fullmatch(verb) else _CLOUD


class _Azure(_Class):
    """Groups, and at the end of them `list` or `show`."""

    examples = (
        "vm list",
        "vm show",
        "account show",
        "account list-locations",
        "keyvault list",
        "version",
    )
    plain = frozenset({"keyvault list", "keyvault show", "version", "account show", "account list"})

    def find(self, verb: str) -> Options | None:
        if verb in self.plain:
            return _CLOUD
        *groups, leaf = verb.split()
        looks = _AZ_LEAVES.fullmatch(leaf) and groups and _AZ_GROUPS.issuperset(groups)
        return _CLOUD if looks and not _AZ_SHOWS.fullmatch(verb) else None


# --- others ---------------------------------------------------------------------------------------

_GS = only("-l -L -b -h -r -R -a -d -p -s -c -e", check=plain_names(r"gs://[\w./*?-]+"))
_APP = only(
    "--json --all --no-tail -x --extended -t --tail",
    texts="-a --app -n --num -r --remote --dyno --source",
    operands=0,
)
_HEROKU = """
    apps apps:info info ps releases status domains addons pipelines regions stack buildpacks version logs logs:list
    maintenance features labs access members teams spaces orgs
"""
_FLY = """
    status apps*list version releases machines*list machine*list volumes*list regions*list ips*list services*list
    platform*regions platform*status logs checks*list certs*list scale*show orgs*list
"""

_NOTHING = only(operands=0)
_DOCTL = """
    account*get compute*droplet*list compute*image*list compute*region*list compute*size*list compute*domain*list
    compute*volume*list compute*firewall*list kubernetes*cluster*list apps*list projects*list
"""
_HCLOUD = """
    server*list image*list network*list volume*list location*list server-type*list firewall*list load-balancer*list
    floating-ip*list ssh-key*list datacenter*list
"""

CLOUDS: dict[str, Program] = {
    "aws": Program(
        only("--no-cli-pager", texts="--region --output --query --profile --color", bundles=False),
        _Aws(),
        reads=False,
    ),
    "gcloud": Program(only(), _Gcloud(), reads=False),
    "az": Program(only(), _Azure(), reads=False),
    "gsutil": Program(only(), {**_verbs("ls du stat", _GS), "version": only("-l")}, reads=False),
    "bq": Program(
        only(texts="--format --project_id --location --dataset_id", bundles=False),
        {
            **_verbs(
                "ls show head",
                only(
                    "-a -j -d -p --all --jobs --datasets --projects --schema --view --job --dataset --table",
                    texts="-n --max_results --format --project_id --location --filter",
                    bundles=False,
                    check=plain_names(r"[\w.:$-]+"),
                ),
            ),
            **_verbs("version info", only(operands=0)),
        },
        reads=False,
    ),
    "heroku": Program(only(), _verbs(_HEROKU, _APP), reads=False),
    "vercel": Program(only(), _verbs("ls list whoami", _NOTHING), reads=False),
    "netlify": Program(only(), _verbs("status sites:list", _NOTHING), reads=False),
    "wrangler": Program(only(), _verbs("whoami", _NOTHING), reads=False),
    "firebase": Program(only(), _verbs("projects:list", _NOTHING), reads=False),
    "doctl": Program(
        only(), _verbs(_DOCTL, only("--no-header", texts="--format", operands=0)), reads=False
    ),
    "hcloud": Program(
        only(), _verbs(_HCLOUD, only(texts="-o --output -l --selector", operands=0)), reads=False
    ),
    "linode-cli": Program(
        only(), _verbs("linodes*list regions*list volumes*list domains*list", _NOTHING), reads=False
    ),
    **dict.fromkeys(("fly", "flyctl"), Program(only(), _verbs(_FLY, _APP), reads=False)),
}
