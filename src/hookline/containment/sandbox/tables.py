"""What is hidden, what is kept from changing, and what of the environment goes in: the tables, by name."""

from __future__ import annotations

from hookline.containment.protected import AGENT_CONFIGURATION, INSTRUCTIONS


def _names(text: str) -> tuple[str, ...]:
    """The names in a text, one line per idea, without what is behind a `#`."""
    return tuple(name for line in text.splitlines() for name in line.partition("#")[0].split())


CREDENTIALS = _names(
    """
    .ssh .gnupg .netrc _netrc .authinfo .git-credentials .config/git/credentials     # keys and tokens
    .config/gh .config/hub .config/glab-cli .password-store .vault-token .config/op
    .local/share/keyrings .local/share/kwalletd .config/sops .config/age .Xauthority
    .aws .azure .config/gcloud .boto .s3cfg .oci .kube .docker .fly .config/doctl    # clouds and clusters
    .config/hcloud .config/rclone .config/heroku .config/containers/auth.json .config/helm
    .terraform.d .terraformrc .pulumi .databrickscfg .snowsql .bluemix
    .npmrc .yarnrc .yarnrc.yml .pypirc .gem/credentials .cargo/credentials           # package registries
    .cargo/credentials.toml .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties
    .nuget/NuGet .config/NuGet .composer/auth.json .config/composer/auth.json .sbt/.credentials
    .ivy2/.credentials .config/pypoetry/auth.toml .cache/huggingface/token .huggingface
    .pgpass .my.cnf .mylogin.cnf .config/mongodb .rediscli_auth                      # databases
    .claude/.credentials.json .codex/auth.json .gemini/oauth_creds.json              # agents
    .config/github-copilot .hookline .config/hookline .local/share/hookline .local/state/hookline .anthropic
    .mozilla .thunderbird .librewolf .zen .config/google-chrome .config/chromium     # browsers, mail, chat
    .config/BraveSoftware .config/microsoft-edge .config/vivaldi .config/opera .var/app snap/firefox
    snap/chromium .config/Slack .config/discord .config/Signal .purple
    .bitcoin .ethereum .electrum .config/solana .monero                              # wallets
    .bash_history .zsh_history .histfile .python_history .psql_history               # what was typed: commands
    .mysql_history .node_repl_history .rediscli_history .sqlite_history              # have passwords in them
    .local/share/fish/fish_history
    """
)
"""Below a home directory: hidden, whether a file or a directory."""

SECRET_PATHS = frozenset(
    _names(
        """
        AWS_SHARED_CREDENTIALS_FILE AWS_CONFIG_FILE GOOGLE_APPLICATION_CREDENTIALS CLOUDSDK_CONFIG AZURE_CONFIG_DIR
        KUBECONFIG DOCKER_CONFIG GNUPGHOME NETRC NPM_CONFIG_USERCONFIG PIP_CONFIG_FILE PGPASSFILE GH_CONFIG_DIR
        PASSWORD_STORE_DIR GIT_ASKPASS SSH_AUTH_SOCK REGISTRY_AUTH_FILE TF_CLI_CONFIG_FILE
        """
    )
)
"""Variables that say where a secret is, when it is not where it usually is: hidden too."""

SYSTEM_SECRETS = _names(
    """
    /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d
    /etc/ssh/ssh_host_*_key /etc/ssl/private /etc/pki/tls/private /etc/letsencrypt /etc/krb5.keytab
    /etc/wireguard /etc/openvpn /etc/NetworkManager/system-connections /var/lib/NetworkManager
    /etc/kubernetes /etc/rancher /var/lib/kubelet /var/lib/rancher /etc/cni
    /var/lib/docker /var/lib/containerd /etc/docker/key.json
    /var/lib/sss /var/spool/cron /var/lib/cloud
    """
)
"""Hidden wherever they are: a root without capabilities still owns, and so can read, what is root's."""

EMPTIED = ("/tmp", "/run", "/var/tmp", "/var/run", "/var/lock")
"""Replaced by an empty directory of the command's own: sockets, locks and other people's files live there."""

PROTECTED = _names(
    """
    .git/hooks .git/config .git/modules .husky .envrc              # run by git, or by a shell that comes by
    .hookline .agents .claude .codex .gemini .cursor .windsurf .mcp.json                # obeyed by agents
    .cursorrules .windsurfrules .github/copilot-instructions.md .github/hooks .github/copilot
    .vscode .idea .devcontainer                                    # run by editors
    """
)
"""Below a directory that can be written: read-only, also when it does not exist. Something else will run or obey it.
Each of them costs every command a little."""

PROTECTED_IF_THERE = tuple(
    sorted((AGENT_CONFIGURATION | INSTRUCTIONS) - {*PROTECTED, "copilot-instructions.md"})
)
"""Read-only where it exists. To hold the place of what does not, something has to lie there, and these names are not
hidden ones: a command that looks at `*.md` would trip over it. Or they are names that few have."""

WITH_PARENT = frozenset({".git"})
"""Of these directories nothing can be made when they are missing: what one would hold is what is protected."""

PROTECTED_AT_HOME = _names(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc .zshrc .zshenv .zprofile
    .zlogin .zlogout .config/fish .gitconfig .config/git .ssh .pam_environment .xprofile .xsessionrc
    .config/autostart .config/systemd .local/share/applications .local/bin bin .vimrc .config/nvim .emacs .emacs.d
    """
)
"""The same, where the directory that can be written is, or holds, a home directory."""

ENVIRONMENT = frozenset(
    _names(
        """
        PATH HOME USER LOGNAME SHELL LANG LANGUAGE TERM COLORTERM TZ COLUMNS LINES NO_COLOR FORCE_COLOR CI
        SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO
        VIRTUAL_ENV CONDA_PREFIX PYENV_ROOT NVM_DIR CARGO_HOME RUSTUP_HOME GOPATH GOROOT JAVA_HOME
        """
    )
)
"""The variables that go in by themselves, with every `LC_`. None of them is a secret."""

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
"""Go in with the network, in either case, unless there is a password in them."""
