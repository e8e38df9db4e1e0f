"""A home directory with fake secrets, and a way to find them in whatever a command leaves."""

from __future__ import annotations

import base64
import bz2
import codecs
import contextlib
import gzip
import lzma
import secrets
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CREDENTIALS = """
.ssh/id_rsa .ssh/id_ed25519 .ssh/config .ssh/known_hosts .gnupg/secring.gpg .gnupg/private-keys-v1.d/key
.netrc .authinfo .git-credentials .config/git/credentials .config/gh/hosts.yml .config/hub .config/op/config
.password-store/site.gpg .vault-token .local/share/keyrings/login.keyring .config/sops/age/keys.txt
.aws/credentials .aws/config .azure/accessTokens.json .config/gcloud/credentials.db .boto .s3cfg .oci/config
.kube/config .docker/config.json .fly/config.yml .config/rclone/rclone.conf .config/heroku/token
.terraform.d/credentials.tfrc.json .terraformrc .pulumi/credentials.json .databrickscfg .snowsql/config
.npmrc .yarnrc.yml .pypirc .gem/credentials .cargo/credentials.toml .m2/settings.xml .gradle/gradle.properties
.composer/auth.json .config/pypoetry/auth.toml .config/uv/credentials.toml .cache/huggingface/token
.local/share/uv/credentials/credentials.toml .config/pip/pip.conf
.pgpass .my.cnf .mylogin.cnf .rediscli_auth .config/mongodb/key
.claude.json .claude/.credentials.json .claude/projects/log.jsonl .codex/auth.json .gemini/oauth_creds.json
.cursor/mcp.json .config/foo/keys.json .config/github-copilot/hosts.json .config/Code/User/settings.json
.continue/config.json .aider.conf.yml .local/share/opencode/auth.json .config/zed/settings.json
.mozilla/firefox/p.default/logins.json .config/google-chrome/Default/Cookies .thunderbird/p/logins.json
.config/Slack/storage.json .config/discord/token .config/Signal/config.json .bitcoin/wallet.dat
.bash_history .zsh_history .python_history .psql_history .node_repl_history .local/share/fish/fish_history
.local/share/direnv/allow/secret .viminfo .lesshst .env .envrc .secrets .token .config/keys/api
"""
"""Below a home directory. Not all are on a list that anybody keeps, and that is the point."""

_PREFIX = "FakeSecret"
"""What each of them holds begins so. It is looked for as it is, and in what encodes it."""


@dataclass
class FakeHome:
    """A home directory, and what each secret in it looks like."""

    path: Path
    markers: dict[str, str] = field(default_factory=dict)
    """From what is looked for to where it is."""

    def make(self) -> FakeHome:
        """Write the credentials, and what is no secret: a name and an address for git."""
        for name in CREDENTIALS.split():
            self.plant(self.path / name)
        (self.path / ".gitconfig").write_text(
            "[user]\n\tname = Ada\n\temail = ada@lovelace.test\n[init]\n\tdefaultBranch = main\n"
        )
        for name in (".bashrc", ".profile", ".zshrc"):
            (self.path / name).write_text("# nothing yet\n")
        return self

    def plant(self, path: Path) -> None:
        """Put a secret into a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'password = "{self.marker(path.name)}"\n')  # which is TOML, too

    def marker(self, where: str) -> str:
        """A new secret, for a file or for a variable."""
        made = f"{_PREFIX}{secrets.token_hex(8)}"
        self.markers[made] = where
        return made

    def found_in(self, data: bytes) -> list[str]:
        """Where the secrets are from that are in these bytes, plain, encoded or compressed."""
        found: set[str] = set()
        for text in _unpacked(data):
            if _PREFIX.encode() in text:
                named = [where for marker, where in self.markers.items() if marker.encode() in text]
                found.update(named or ["a part of a secret"])
            joined = b"".join(
                text.split()
            )  # hexadecimal digits and base64 come in groups and lines
            if any(needle in joined for needle in _NEEDLES):
                found.add("an encoded secret")
        return sorted(found)


def _needles() -> Iterator[bytes]:
    plain = _PREFIX.encode()
    for shift in range(
        3
    ):  # where three bytes begin is not known; what the neighbours take part in is left out
        encoded = base64.b64encode(b"\0" * shift + plain)
        yield encoded[(0, 2, 3)[shift] : 4 * ((shift + len(plain)) // 3)]
    yield plain.hex().encode()
    yield plain.hex().upper().encode()
    yield plain[::-1]
    yield codecs.encode(_PREFIX, "rot13").encode()


_NEEDLES = tuple(_needles())


def _unpacked(data: bytes) -> Iterator[bytes]:
    """The bytes, and what they are compressed of."""
    yield data
    for beginning, unpack in _COMPRESSED.items():
        if data.startswith(beginning):
            with contextlib.suppress(OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
                yield unpack(data)


_COMPRESSED = {
    b"\x78": zlib.decompress,  # an object of git
    b"\x1f\x8b": gzip.decompress,
    b"BZh": bz2.decompress,
    b"\xfd7zXZ": lzma.decompress,
}
