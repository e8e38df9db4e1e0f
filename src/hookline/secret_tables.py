"""The tables of secrets: names of files and variables, arguments of programs, and what tokens look like.

They are data for `containment` (what a command may see) and `redaction` (what a text may say). Each of the two has its
own algorithm; what counts as a secret is decided here, once.
"""

from __future__ import annotations

import re
from typing import NamedTuple


def names_in(text: str) -> tuple[str, ...]:
    """The names in a text, one line per idea, without what is behind a `#`."""
    return tuple(name for line in text.splitlines() for name in line.partition("#")[0].split())


# --- files ------------------------------------------------------------------------------------------

SECRET_FILES = frozenset(
    names_in(
        """
        .ssh .aws .gnupg .kube .azure .password-store .docker .netrc _netrc .pgpass .npmrc .pypirc .git-credentials
        .envrc .htpasswd .vault-token .terraform.d .terraformrc .dockercfg .my.cnf .s3cfg .boto .lesshst .viminfo
        keyrings keychains gcloud sudoers sudoers.d wallet.dat id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk
        id_ed25519_sk authorized_keys credentials credentials.json credentials.yml credentials.yaml credentials.xml
        credentials.toml credentials.csv secrets secrets.json secrets.yml secrets.yaml secrets.toml secrets.env
        secret.json secret.yml secret.yaml secret.txt secrets.txt passwords.txt master.key kubeconfig cookies.sqlite
        .credentials.json application_default_credentials.json oauth_creds.json .databrickscfg .yarnrc.yml token.json
        tokens.json key4.db logins.json kcore htpasswd .token .credentials .secrets auth.json wireguard
        system-connections keystore opasswd debian.cnf settings-security.xml rclone.conf wp-config.php .vault_pass
        vault_pass.txt environ local.settings.json kaggle.json k3s.yaml ipsec.secrets ldap.secret vault.yml vault.yaml
        .vault_password .msmtprc .mylogin.cnf .sentryclirc .clasprc.json pgpass.conf stored_tokens node-token
        rke2.yaml docker.sock wpa_supplicant msmtprc gitlab.rb deploy_key github_deploy_key accesskeys.csv rootkey.csv
        cookies.txt recovery-codes.txt backup-codes.txt seed_phrase.txt unseal_keys.txt vault-keys.json
        datasources.local.xml sftp.json sftp-config.json tcc.db kcpassword config.v2.json user-data.txt secrets.tdb
        auth.conf.d .ftpconfig .ansible_vault_pass .dev.vars .flaskenv env.production .envs claude_desktop_config.json
        .mutt muttrc .authinfo .wgetrc .curlrc .zhistory .xauthority .iceauthority chap-secrets pap-secrets
        """
    )
) | {"login data"}
"""Files and directories with these names hold secrets, wherever they are. In lower case."""

LIKELY_SECRETS = names_in(
    """
    .env .env.local .env.production prod.env .ssh .aws .netrc .npmrc .git-credentials .pypirc .gnupg .kube .htpasswd
    .pgpass id_rsa id_ed25519 credentials
    """
)
"""What a pattern such as `.e*` may find. Not all of the above: `*.json` would ask then."""

SECRET_ENDINGS = names_in(
    """
    .pem .key .p12 .pfx .keystore .jks .kdbx .kdb .ovpn .ppk .asc .gpg .age .tfstate .tfvars .env .keytab .nmconnection
    _history .p8 .token
    """
)
"""Files whose names end like this hold secrets. In lower case."""

SECRET_PAIRS = frozenset(
    {
        ("gh", "hosts.yml"),
        ("ssl", "private"),
        ("kubernetes", "admin.conf"),
        ("kubernetes", "pki"),
        ("kubelet", "pki"),
        ("library", "cookies"),
        ("library", "messages"),
        ("cloud", "instance"),
        ("default", "cookies"),
        ("apt", "auth.conf"),
    }
)
"""A directory and a name in it that hold a secret together. In lower case."""

COPY_ENDING = re.compile(r"(?:\.(?:bak|old|orig|backup|save|swp|copy|tmp|[0-9])|~|-)+$")
"""A copy of a secret is a secret."""

SECRET_FILE_NAME = re.compile(
    r"""
    (?:^|[._-])
    (?: passwd | passwords? | secrets? | credentials?
      | (?:access|auth|api|bearer|refresh|github|gitlab|slack|npm|bot)[_-]?tokens? | (?<![._-])tokens?
      | api[_-]?keys? | private[_-]?keys? | privkey
      | mnemonic | wallet | keystore | psk | sensitive | adminsdk | service[_-]?account[_-]?key | secret[_-]?key )
    (?:[_-][\w-]*)?
    (?:\.(?:txt|json|ya?ml|csv|ini|conf|cfg|xml|properties|toml|db|enc|client|secret))?$
    """,
    re.VERBOSE,
)
"""The name of a file that says what the file holds, unless it is source code or prose."""

SAMPLE_FILE = re.compile(r"(?:^|[._-])(?:example|sample|template|dist|defaults?|schema)(?:[._-]|$)")
"""A file that shows how a secret file is written, and holds no secret."""

PUBLIC_KEY_FILE = re.compile(
    r"(?:\w*pub(?:lic)?|certs?|ca|chain|fullchain|ca-bundle|bundle)(?:[._-]?key)?\.pem"
)
"""Files that end in `.pem` and hold nothing secret."""

_ENV_FILE = re.compile(
    r"\.env(?:[._~-].*)?|.+\.env(?:\.local)?|env\.(?:local|prod|production|staging|development)|\.flaskenv|\.dev\.vars(?:\..*)?",
    re.DOTALL,
)


def is_env_file(name: str) -> bool:
    """Whether a file of this name, without its directory, sets variables that may be secrets: `.env.local`, `prod.env`.

    A sample (`.env.example`) is not a secret, but `.env.example.local` is somebody's own. `.envrc` is none of these: it
    is a program, which people commit.
    """
    lower = name.lower().strip("# ")  # an editor writes `#.env#`
    lower = COPY_ENDING.sub("", lower) or lower
    is_sample = SAMPLE_FILE.search(lower) is not None and not lower.endswith(".local")
    return _ENV_FILE.fullmatch(lower) is not None and not is_sample


HOME_SECRETS = names_in("_netrc snap/firefox snap/chromium snap/thunderbird")
"""Below a home directory, under names that do not begin with a dot."""

INSTALLATIONS = names_in(
    """
    .pyenv .nvm .cargo .rustup
    .local/lib .local/share/uv/python .local/share/uv/tools .local/share/pipx/venvs .local/pipx/venvs    # programs
    .local/share/mise/installs .asdf/installs .sdkman/candidates .rbenv/versions .volta/tools .elan/toolchains
    .local/share/fnm .local/share/pnpm .local/share/gem .gem/ruby .deno/bin .bun/bin .dotnet/sdk
    .cache/pip .cache/pre-commit .cache/ms-playwright .npm/_cacache .yarn/cache .yarn/berry/cache        # caches
    .bun/install/cache .m2/repository .gradle/caches .gradle/wrapper .ivy2/cache .sbt/boot .nuget/packages
    .composer/cache .pub-cache/hosted
    """
)
"""Below a home: what package managers have installed or fetched. Of the entries of a home that begin with a dot, these
alone are shown: all others may hold tokens."""

SYSTEM_SECRETS = names_in(
    """
    /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d
    /etc/ssh/ssh_host_*_key /etc/ssl/private /etc/pki/tls/private /etc/letsencrypt /etc/krb5.keytab
    /etc/wireguard /etc/openvpn /etc/NetworkManager/system-connections /var/lib/NetworkManager
    /etc/kubernetes /etc/rancher /var/lib/kubelet /var/lib/rancher /etc/cni
    /var/lib/docker /var/lib/containerd /etc/docker/key.json
    /var/lib/sss /var/spool/cron /var/lib/cloud /etc/security/opasswd /var/cache/debconf/passwords.dat
    """
)
"""Hidden wherever they are: a root without capabilities still owns, and so can read, what is root's."""

# --- variables and fields ---------------------------------------------------------------------------

SECRET_PATH_VARIABLES = frozenset(
    names_in(
        """
        AWS_SHARED_CREDENTIALS_FILE AWS_CONFIG_FILE GOOGLE_APPLICATION_CREDENTIALS CLOUDSDK_CONFIG AZURE_CONFIG_DIR
        KUBECONFIG DOCKER_CONFIG GNUPGHOME NETRC NPM_CONFIG_USERCONFIG PIP_CONFIG_FILE PGPASSFILE GH_CONFIG_DIR
        PASSWORD_STORE_DIR GIT_ASKPASS SSH_AUTH_SOCK REGISTRY_AUTH_FILE TF_CLI_CONFIG_FILE
        """
    )
)
"""Variables that say where a secret is when it is not in its usual place."""

CLOUD_VARIABLE = re.compile(
    r"(?:ANTHROPIC|AWS|AZURE|GOOGLE|GCP|GCLOUD|CLOUDSDK|VERTEX|BEDROCK|OPENAI)_"
)
"""How variables begin that hold, or lead to, the keys of a model or a cloud."""

STRONG_NAMES = (
    "password", "passwd", "passphrase", "pwd", "secret", "secretkey", "apikey", "apitoken", "accesskey", "accesstoken",
    "refreshtoken", "authtoken", "idtoken", "bearertoken", "sessiontoken", "privatekey", "accountkey", "signingkey",
    "encryptionkey", "masterkey", "clientsecret", "credential", "connectionstring", "authorization", "cookie",
    "privatetoken", "authorizationtoken", "webhookurl", "keydata", "secretkeybase",
)  # fmt: skip
"""A name that ends like this holds a secret, whatever the value looks like."""

WEAK_NAMES = ("token", "auth", "accesskeyid", "otp", "key", "githubpat", "gitlabpat", "ghpat")
"""A name that ends like this holds a secret if the value looks like one."""

HARMLESS_NAME = re.compile(
    r"page|next|cursor|continu|sync|public|foreign|primary|sort|partition|cache|idempot|count|len"
)
"""A name with a weak ending and one of these in it holds nothing secret, as `next_page_token` does."""

HARMLESS_ENDING = re.compile(r"(?:file|path|dir|url|uri|name|id|arn|header|hash)$")
"""A variable with a strong name before this says where a secret is, or what it is called: `PASSWORD_FILE`."""

SECRET_OF_REQUEST = re.compile(r"auth|key|token|secret|passw|credential|cookie|session|sig", re.I)
"""A header or a parameter of a request with one of these in its name holds a secret."""

# --- command lines ----------------------------------------------------------------------------------


class SecretArguments(NamedTuple):
    """Which arguments of a program are secrets."""

    attached: tuple[str, ...] = ()
    """What follows directly is a secret: `-pSECRET`, `--password=SECRET`, `pass:SECRET`."""
    separate: tuple[str, ...] = ()
    """The next word is: `-a SECRET`."""
    pairs: tuple[str, ...] = ()
    """What follows, directly or as the next word, is a user and a secret."""
    between: str = ":"
    """What stands between the two."""
    verb: str = ""
    """Only where this word is on the line too."""
    setters: frozenset[str] = frozenset()
    """With one of these words, the name of a secret comes before its value: `config set auth_token SECRET`."""
    last: str = ""
    """With an option that has this letter, the last word is a secret."""
    is_first_only: bool = False
    """Only the first one counts: `sshpass -p SECRET ssh -p 22`."""


_LONG = ("--password", "--passwd", "--pass", "--passphrase")
_GIVEN = tuple(f"{name}=" for name in _LONG)
_MYSQL = SecretArguments(("-p", *_GIVEN))
_SHORT_TOO = SecretArguments(("-p", *_GIVEN), ("-p", *_LONG), is_first_only=True)
_LONG_ONLY = SecretArguments(_GIVEN, _LONG)
_LOGIN = _SHORT_TOO._replace(verb="login", is_first_only=False)
_LDAP = SecretArguments(("-w",), ("-w",))
_SQL = SecretArguments(("-P",), ("-P",))
_SETS = _LONG_ONLY._replace(setters=frozenset({"set", "config", "configure"}))

COMMAND_SECRETS = {
    **dict.fromkeys(("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlcheck"), _MYSQL),
    **dict.fromkeys(("mysqlshow", "mysqlsh", "mariadb", "mariadb-dump", "mariadb-admin"), _MYSQL),
    **dict.fromkeys(("mongo", "mongosh", "mongodump", "mongorestore", "mongoexport"), _SHORT_TOO),
    **dict.fromkeys(("mongoimport", "cqlsh", "sshpass"), _SHORT_TOO),
    **dict.fromkeys(("wget", "svn", "clickhouse-client", "gpg", "gpg2"), _LONG_ONLY),
    **dict.fromkeys(("docker", "podman", "nerdctl", "buildah", "skopeo", "helm"), _LOGIN),
    **dict.fromkeys(("az", "oc", "cf"), _LOGIN),
    **dict.fromkeys(("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami"), _LDAP),
    **dict.fromkeys(("sqlcmd", "bcp", "tsql", "ipmitool", "zip", "unzip"), _SQL),
    **dict.fromkeys(("7z", "7za", "7zr", "7zz", "rar", "unrar"), SecretArguments(("-p", "-hp"))),
    **dict.fromkeys(
        ("smbclient", "smbget", "rpcclient"), SecretArguments((), (), ("-U", "--user"), "%")
    ),
    **dict.fromkeys(("aws", "npm", "pnpm", "yarn", "git", "gcloud", "pulumi", "dotnet"), _SETS),
    **dict.fromkeys(("http", "https", "xh"), SecretArguments(pairs=("-a", "--auth"))),
    "curl": SecretArguments(
        ("--pass=", "--oauth2-bearer="),
        ("--pass", "--oauth2-bearer"),
        ("-u", "--user", "-U", "--proxy-user"),
    ),
    "ldappasswd": SecretArguments(("-w", "-s", "-a"), ("-w", "-s", "-a")),
    "redis-cli": SecretArguments(("-a", *_GIVEN), ("-a", *_LONG)),
    "openssl": SecretArguments(("pass:",), ("-k", "-K")),
    "lftp": SecretArguments((), (), ("-u",), ","),
    "xfreerdp": SecretArguments(("/p:",)),
    "htpasswd": SecretArguments(last="b"),
    "setenv": SecretArguments(setters=frozenset({"setenv"})),
    "kubectl": SecretArguments(pairs=("--from-literal",), between="=", verb="secret"),
}
"""By name of the program. Variables, as in `PGPASSWORD=...`, are found by their names."""

# --- tokens -----------------------------------------------------------------------------------------


class TokenPattern(NamedTuple):
    """A kind of token, and how it is recognised."""

    kind: str
    """What stands in the place of such a token: `[redacted:KIND]`."""
    hints: tuple[str, ...]
    """One of these is in every such token: a text without them need not be searched. In lower case."""
    pattern: str
    """A regular expression of linear cost for the token alone: `redaction.tokens` knows what may stand around it.

    One with a group `secret` is for a token and its context; the group is the part to take out.
    """
    is_loose: bool = False
    """Whether names of other things look like this too. Then only a word of its own counts, if not made of words."""


def _token(kind: str, hints: str, pattern: str, *, is_loose: bool = False) -> TokenPattern:
    return TokenPattern(kind, tuple(hints.split()), pattern, is_loose)


_DIGIT = r"(?=[\w-]{0,80}\d)"
_KEY_LINE = r"(?:[A-Za-z0-9+/=]{1,80}[\"']?[ \t]{0,8}[+,;.&)]{0,2}[ \t]{0,8}(?:\r?\n|$)|-----END)"
"""A line of a private key, or its end, behind what stands before each line: as a quotation in a mail has it (`> `), or
as the source of a program has texts over several lines."""

_PGPASS = (
    r"(?m:^)[-+>]?[ \t]{0,4}"
    r"(?![\w./-]{0,200}\.(?:py|js|ts|go|rs|c|h|cc|cpp|java|rb|md|txt|json|ya?ml|toml|html|css|sh|log):)"
    r"(?:[\w./~-]{0,200}pgpass[\w.~-]{0,40}[:-])?(?:\d{1,6}[:-])?"
)
"""Where a line of `.pgpass` may begin: host, port, database, user, password. `grep` puts the name of the file and the
number of the line before it. Lines of compilers, and of `grep` in other files, are no such lines."""
_NO_COLUMN = r"(?![0-9a-fA-F]{4}$)"
PLAIN_BACKSLASH = r"\\(?![\\\"'`/bfnrtux\s]|$)"
"""A backslash in a value without quotes, where it begins no escape of the text around the value."""
_WORD = rf"(?:[^\s\"'\\\[]|{PLAIN_BACKSLASH})"

TOKENS = (
    _token(
        "private-key",
        "-----begin",
        r"-----BEGIN[ +][A-Z0-9 +]{0,40}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----"
        r"(?>(?:[^-\"'\\<>{}]++|-(?!----)|(?<=[\n> \t])>(?=[> \t]{0,16}" + _KEY_LINE + r")"
        r"|(?<=[\n> \t])[\"'](?=" + _KEY_LINE + r")"
        r"|[\"'](?=[ \t]{0,8}[+,;.&]{0,2}[ \t]{0,8}\r?\n[ \t>]{0,40}[\"']?" + _KEY_LINE + r"))*)"
        r"(?:-----END[ +][A-Z0-9 +]{0,40}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----)?",
    ),
    # The same in base64, as in the files of Kubernetes; certificates and public keys begin differently.
    _token("private-key", "ls0tls1crudjti", r"LS0tLS1CRUdJTi(?!BDRVJU|BQVUJM)[A-Za-z0-9+/]{20,}+={0,2}"),
    _token(
        "aws-key",
        "akia asia abia acca absk bedrock-api-key-",
        r"A(?:KI|SI|BI|CC)A[A-Z0-9]{16}|(?:ABSK|bedrock-api-key-)[A-Za-z0-9+/]{60,}+={0,2}",
    ),
    _token(
        "github-token",
        "gh github_pat_",
        r"gh[oprsu]_(?:(?=[A-Za-z0-9]{0,80}\d)[A-Za-z0-9]{16,}+|[A-Za-z]{36})|github_pat_" + _DIGIT + r"\w{16,}+",
    ),
    _token(
        "gitlab-token",
        "gl gr1348941",
        # A few have no digit, and both kinds of letters.
        r"gl(?:pat|dt|ft|ffct|rt|rtr|soat|cbt|ptt|imt|agent|oas|wt)-(?:" + _DIGIT + r"[\w-]{16,}+(?:\.\w{2}\.\w{7,9})?"
        r"|(?=[\w-]{0,19}[A-Z])(?=[\w-]{0,19}[a-z])[\w-]{20}(?![\w-]))"
        r"|GR1348941[\w-]{20,}+",
    ),
    _token(
        "slack-token",
        "xox xapp- xwfp-",
        r"xoxd-[\w/+=-]{10,}+|(?:(?:xoxe\.)?xox[abceoprs]|xapp-\d|xwfp)-[\w-]{10,}+",
    ),
    _token(
        "slack-webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/]{20,}+)",
    ),
    _token(
        "stripe-key",
        "_live_ _test_ whsec_",
        r"(?:[rspe]k|sk_org)_(?:live|test)_[A-Za-z0-9]{16,}+|whsec_[A-Za-z0-9+/]{16,}+={0,2}",
    ),
    _token("anthropic-key", "sk-ant-", r"sk-ant-[\w-]{16,}+"),
    _token("openai-key", "sk-", r"sk-(?!ant-)" + _DIGIT + r"[\w-]{16,}+", is_loose=True),
    _token("google-key", "aiza", r"AIza[\w-]{30,}+"),
    _token(
        "google-token",
        "ya29. gocspx- 1//0",
        r"ya29\.(?:[a-z]\.)?[\w-]{20,}+|GOCSPX-[\w-]{20,}+|1//0" + _DIGIT + r"[\w-]{30,}+",
    ),
    # Signed, and encrypted (five parts, of which the second may be empty).
    _token(
        "jwt",
        "eyj",
        r"eyJ[\w-]{8,}+\.(?:eyJ[\w-]{8,}+\.(?:[\w-]{8,}+)?|[\w-]*+(?:\.[\w-]{8,}+){3})",
    ),
    _token("sendgrid-key", "sg.", r"SG\.[\w-]{16,64}\.[\w-]{16,}+"),
    _token(
        "huggingface-token",
        "hf_ api_org_",
        r"hf_" + _DIGIT + r"[A-Za-z0-9]{16,}+|(?:hf|api_org)_[A-Za-z]{34}",
    ),
    _token("npm-token", "npm_", r"npm_(?:" + _DIGIT + r"[A-Za-z0-9]{16,}+|[A-Za-z]{36})"),
    _token("pypi-token", "pypi-", r"pypi-" + _DIGIT + r"[\w-]{16,}+"),
    _token(
        "api-key",
        "rk pk sk gsk_ xai- sess",
        r"(?:[rps]k|gsk|xai|sess)[_-](?!(?:live|test)_|ant-)" + _DIGIT + r"[\w-]{16,}+",
        is_loose=True,
    ),
    _token(
        "api-key",
        "_v1_ shp dapi glsa_ glc_ dckr_ lin_ figd_ rubygems_ hvs. hvb. hvr. sntry r8_ tvly- pplx- age-secret",
        r"do[opr]_v1_[a-f0-9]{64}|shp[a-z]{2,4}_[a-fA-F0-9]{32}|dapi[a-f0-9]{32}(?:-\d{1,2})?"
        r"|glsa_[A-Za-z0-9]{32}(?:_[a-fA-F0-9]{8})?|glc_[A-Za-z0-9+/]{32,}+={0,2}|dckr_[op]at_[\w-]{20,}+"
        r"|lin_(?:api|oauth)_[A-Za-z0-9]{32,}+|figd_[\w-]{30,}+|rubygems_[a-f0-9]{32,}+|hv[sbr]\.[\w-]{24,}+"
        r"|sntry[su]_[\w+/=-]{30,}+|r8_[A-Za-z0-9]{30,}+|tvly-[\w-]{20,}+|pplx-[A-Za-z0-9]{30,}+"
        r"|AGE-SECRET-KEY-1[0-9A-Z]{50,}+",
    ),
    _token(
        "discord-token",
        ".",
        r"[MNO](?=[\w-]{0,30}\d)[\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}|mfa\.[\w-]{80,}+",
        is_loose=True,
    ),
    _token(
        "discord-webhook",
        "/webhooks/",
        r"discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{17,20}/(?P<secret>[\w-]{50,}+)",
    ),
    _token(
        "notion-token", "ntn_ secret_", _DIGIT + r"(?:ntn_[A-Za-z0-9]{40,}+|secret_[A-Za-z0-9]{43})", is_loose=True
    ),
    _token("terraform-token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}+"),
    _token("azure-client-secret", "q~", r"[\w~.-]{3}\dQ~[\w~.-]{31,34}"),
    # Keys with a checksum, and keys of storage accounts.
    _token(
        "azure-key", "jqqj9 +ast", r"[A-Za-z0-9]{52}JQQJ9[A-Za-z0-9]{20,}+|[A-Za-z0-9+/]{76}\+ASt[A-Za-z0-9+/]{6}=="
    ),
    _token("supabase-key", "sbp_ sb_secret_", r"sbp_(?:[a-z0-9]{2,8}_)?[a-f0-9]{40}|sb_secret_[\w-]{20,}+"),
    _token("langsmith-key", "lsv2_ ls__", r"lsv2_[a-z]{2,8}_[a-f0-9]{32}_[a-f0-9]{10}|ls__[a-f0-9]{32}"),
    _token("new-relic-key", "nr", r"NR(?:AK|II|JS|SP|BR|RA|AA|IQ)-[\w-]{19,}+|[a-z0-9]{36}NRAL"),
    _token(
        "atlassian-token",
        "tt3 atbb",
        r"AT[A-Z]TT3[\w=-]{50,}+|ATBB(?=[A-Za-z0-9]{0,40}\d)[A-Za-z0-9]{28,}+",
    ),
    _token("postman-key", "pmak- pmat-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}|PMAT-[A-Z0-9]{26}"),
    # Anything may begin with `00`: only next to its name.
    _token(
        "okta-token",
        "okta ssws",
        r"(?i:okta[\w.-]{0,40}[\"']?[ \t]{0,3}(?:=>|:=|=|:|[ \t])[ \t]{0,3}[\"']?|\bssws[ \t]{1,4})"
        r"(?P<secret>00[\w-]{40})(?![\w-])",
    ),
    _token("fly-token", "fm1a_ fm1r_ fm2_ fo1_", r"fm(?:1[ar]|2)_[\w+/-]{50,}+={0,3}|fo1_[\w-]{40,}+"),
    _token("planetscale-token", "pscale_", r"pscale_[a-z]{2,8}_[\w=.-]{32,}+"),
    _token("mailgun-key", "-", r"key-[a-f0-9]{32}|[a-f0-9]{32}-[a-f0-9]{8}-[a-f0-9]{8}", is_loose=True),
    _token("doppler-token", "dp.", r"dp\.[a-z]{2,6}\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}+"),
    # The forms of crypt(3) and their like: `$NAME$`, one to four fields, which may be empty, and the hash.
    _token(
        "password-hash",
        "$",
        r"(?:\$(?:[15-7]|2[abxy]?|g?y|sm3|md5|sha1|apr1|argon2(?:id|i|d)|scrypt|bcrypt-sha256|pbkdf2(?:[_-]sha\d{1,3})?)"
        r"|\b(?:pbkdf2[_-]sha\d{1,3}|scrypt|(?:pbkdf2:sha\d{1,3}|scrypt)(?::\d{1,9}){1,3}))"
        r"\$(?:[\w./+=,-]{0,128}\$){1,4}[\w./+=-]{22,256}"
        r"|\$(?:[PH]\$[./A-Za-z0-9]{31}|S\$[./A-Za-z0-9]{52})"
        r"|\bSCRAM-SHA-(?:1|256|512)\$\d{1,9}:[\w+/=]{8,128}\$[\w+/=]{20,128}:[\w+/=]{20,128}",
    ),
    _token(
        "password-hash",
        "sha md5} crypt}",
        r"(?i:\{(?:S?SHA(?:224|256|384|512)?|S?MD5|CRYPT)\})(?P<secret>[\w./+$=]{13,256})",
    ),
    # Blanks and short passwords count where the line cannot be another one: on this machine, with a port of
    # PostgreSQL, or with a `*`.
    _token(
        "secret",
        ":",
        _PGPASS + r"(?=localhost:|127\.|\[|\\:|/(?:var/)?(?:run|tmp)\b|[^\n]{0,240}\*:"
        r"|[^:\n]{1,101}:(?:543\d|6432):[^:\n]{1,64}:[^:\n]{1,64}:[^\s]{4})"
        r"(?:[A-Za-z0-9][\w.-]{0,100}|\*|\[[\w:.%]{2,60}\]|(?:\\:|\w){3,60}|/[\w./-]{0,100}):(?:\d{4,5}|\*):"
        r"(?:[^\s:\\](?:[^:\\\n]|\\[:\\]){0,63}:){2}"
        r"(?P<secret>" + _NO_COLUMN + r"(?:[^\s:\\\[]|\\[:\\])(?:[^\r\n:\\\[]|\\[:\\]){0,255})(?=\r?$|\r?\n)",
    ),
    _token(
        "secret",
        ":",
        _PGPASS + r"[A-Za-z0-9][\w.-]{0,100}:\d{4,5}:[\w-]{1,64}:[\w.-]{1,64}:"
        r"(?P<secret>" + _NO_COLUMN + r"(?:[^\s:\\\[]|\\[:\\]){4,255})(?=\r?$|\r?\n)",
    ),
    _token(
        "url-password",
        "@",
        r"(?i:\bhttps?://)(?P<secret>(?=[\w.~+%-]{0,255}\d)[\w.~+%-]{16,255})@(?=[\w.\[-])",
        is_loose=True,
    ),
    _token("url-password", "@", r"(?i:\bhttps?://)(?P<secret>\w{24,255})@(?=[\w.\[-])"),
    _token("bot-token", ":aa", r"(?:bot)?\d{8,10}:AA[\w-]{30,}+"),
    _token(
        "bearer-token",
        "bearer",
        r"(?i:\bbearer[ \t+]{1,4})(?P<secret>(?=[\w.~+/-]{0,80}\d)[\w.~+/-]{16,}+=*+)",
    ),
    _token(
        "basic-auth",
        "basic",
        r"(?i:\bbasic[ \t+]{1,4})(?P<secret>(?=[\w+/-]{0,80}\d)[\w+/-]{16,}+=*+)",
    ),
    _token(
        "secret",
        "password",
        r"(?i:\blogin[ \t]{1,4}[^\s\"'\\]{1,100}\s{1,4}password[ \t]{1,4})(?P<secret>(?>" + _WORD + r"{1,255}))",
    ),
    # SQL.
    _token(
        "secret",
        "password by",
        r"(?i:\b(?:with[ +](?:encrypted[ +])?password|identified[ +](?:with[ +][^\s'+]{1,40}[ +])?by)[ \t+]{1,4})"
        r"'(?![.<$?%*])(?P<secret>[^'\n\[]{1,255})'",
    ),
    _token(
        "secret",
        "--",
        r"(?i:--(?:[a-z-]{0,20}-)?(?:password|passwd|passphrase|token|secret|api-?key)[ \t=]{1,2})"
        r"(?P<secret>(?=[^\s\"'\[]{0,80}\d)(?![<$({-])(?>" + _WORD + r"{4,255}))",
    ),
    _token(
        "secret",
        "--",
        r"(?i:--(?:[a-z-]{0,20}-)?(?:password|passwd|passphrase)=)(?P<secret>(?!your|pass|xxx|[<$({*`-])(?>"
        + _WORD + r"{3,255}))",
    ),
    _token(
        "url-password",
        "://",
        r"://(?!:@)(?P<secret>[^/@\s\[?#:\"'\\<>]*+:[^/@\s\[?#\"'\\<>]*+(?:@[^/@\s\[?#\"'\\<>]++){0,16})@",
    ),
    _token(
        "url-parameter",
        "key= sig= signature= token= secret= password=",
        r"(?i:[?&](?:[a-z_-]{0,20}[_-])?(?:api-?)?(?:key|sig|signature|token|secret|password)=)"
        r"(?P<secret>[^&\s\"'\[\\#<>]{12,}+)",
    ),
)  # fmt: skip

REPEATED_KEYS = (
    (re.compile(r"(?i)\b(bearer|basic)\s+(?=\S*\d)[\w.~+/*=-]{6,}"), r"\1 [key]"),
    (re.compile(r"\b(?:sk|pk|rk|gsk|xai|sess)[-_][\w*.-]{6,}[\w*]"), "[key]"),
    (re.compile(r"\bAIza[\w*-]+"), "[key]"),
    (re.compile(r"(?i)([?&](?:api_?)?key=)[^&\s\"']+"), r"\1[key]"),
    (re.compile(r"(://)[^/@\s]+@"), r"\1[key]@"),
)
"""Keys as services repeat them in their errors: short, or with asterisks. Too greedy for other text."""
