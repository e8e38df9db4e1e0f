"""What is hidden, what is kept from changing, and what of the environment goes in: the tables, by name."""

from __future__ import annotations

CREDENTIALS = (
    # keys and tokens
    *(".ssh", ".gnupg", ".netrc", "_netrc", ".authinfo", ".git-credentials", ".config/git/credentials"),
    *(".config/gh", ".config/hub", ".config/glab-cli", ".password-store", ".vault-token", ".config/op"),
    *(".local/share/keyrings", ".local/share/kwalletd", ".config/sops", ".config/age", ".Xauthority"),
    # clouds and clusters
    *(".aws", ".azure", ".config/gcloud", ".boto", ".s3cfg", ".oci", ".kube", ".docker", ".fly"),
    *(".config/doctl", ".config/hcloud", ".config/rclone", ".config/heroku", ".config/containers/auth.json"),
    *(".terraform.d", ".terraformrc", ".pulumi", ".config/helm", ".databrickscfg", ".snowsql", ".bluemix"),
    # package registries
    *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".gem/credentials", ".cargo/credentials"),
    *(".cargo/credentials.toml", ".m2/settings.xml", ".m2/settings-security.xml", ".composer/auth.json"),
    *(".gradle/gradle.properties", ".nuget/NuGet", ".config/NuGet", ".sbt/.credentials", ".ivy2/.credentials"),
    *(".config/composer/auth.json", ".config/pypoetry/auth.toml", ".cache/huggingface/token", ".huggingface"),
    # databases
    *(".pgpass", ".my.cnf", ".mylogin.cnf", ".config/mongodb", ".rediscli_auth"),
    # agents
    *(".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".config/github-copilot"),
    *(".hookline", ".config/hookline", ".local/share/hookline", ".local/state/hookline", ".anthropic"),
    # browsers, mail and chat
    *(".mozilla", ".thunderbird", ".librewolf", ".zen", ".config/google-chrome", ".config/chromium"),
    *(".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".var/app"),
    *("snap/firefox", "snap/chromium", ".config/Slack", ".config/discord", ".config/Signal", ".purple"),
    # wallets
    *(".bitcoin", ".ethereum", ".electrum", ".config/solana", ".monero"),
    # what was typed: commands have passwords in them
    *(".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history", ".histfile"),
    *(".node_repl_history", ".rediscli_history", ".sqlite_history", ".local/share/fish/fish_history"),
)
"""Below a home directory: hidden, whether a file or a directory."""

SYSTEM_SECRETS = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/ssh/ssh_host_*_key", "/etc/ssl/private", "/etc/pki/tls/private", "/etc/letsencrypt"),
    *("/etc/wireguard", "/etc/openvpn", "/etc/NetworkManager/system-connections", "/etc/krb5.keytab"),
    *("/etc/kubernetes", "/etc/rancher", "/var/lib/kubelet", "/var/lib/docker", "/var/lib/containerd"),
    *("/etc/docker/key.json", "/etc/cni", "/var/lib/rancher", "/var/lib/sss", "/var/spool/cron"),
    *("/var/lib/NetworkManager", "/var/lib/cloud", "/boot/efi", "/lost+found"),
)
"""Hidden wherever they are: a root without capabilities still owns, and so can read, what is root's."""

EMPTIED = ("/tmp", "/run", "/var/tmp", "/var/run", "/var/lock")
"""Replaced by an empty directory of the command's own: sockets, locks and other people's files live there."""

PROTECTED = (
    *(".git/hooks", ".git/config", ".git/modules"),
    *(".hookline", ".claude", ".codex", ".gemini", ".cursor", ".windsurf", ".continue", ".aider.conf.yml"),
    *(".mcp.json", ".vscode", ".idea", ".zed", ".devcontainer", ".envrc", ".husky"),
    *(".github/copilot-instructions.md", ".github/instructions"),
)
"""Below a directory that can be written: read-only, also when it does not exist. Something else will run or obey it."""

WITH_PARENT = frozenset({".git"})
"""Of these directories nothing can be made when they are missing: what one would hold is what is protected."""

PROTECTED_AT_HOME = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc"),
    *(".zshenv", ".zprofile", ".zlogin", ".zlogout", ".inputrc", ".gitconfig", ".config/git", ".ssh"),
    *(".config/fish", ".config/autostart", ".config/systemd", ".local/share/applications", ".pam_environment"),
    *(".xprofile", ".xsessionrc", ".vimrc", ".config/nvim", ".emacs", ".emacs.d", ".local/bin", "bin"),
)
"""The same, where the directory that can be written is, or holds, a home directory."""

ENVIRONMENT = frozenset(
    """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TERM COLORTERM TZ COLUMNS LINES NO_COLOR FORCE_COLOR CI EDITOR PAGER
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO
    VIRTUAL_ENV CONDA_PREFIX PYENV_ROOT NVM_DIR CARGO_HOME RUSTUP_HOME GOPATH GOROOT JAVA_HOME
    """.split()
)
"""The variables that go in by themselves, with every `LC_`. None of them is a secret."""

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
"""Go in with the network, in either case, unless there is a password in them."""
