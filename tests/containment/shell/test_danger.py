"""What is denied, by its words and by where it aims."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell_corpus import commands

from hookline.containment import ShellPolicy


def test_it_is_denied() -> None:
    """What must never run is denied in every spelling."""
    policy = ShellPolicy.default()
    assert [text for text in commands("denied") if policy.judge(text).decision != "deny"] == []


OVER_LINES = [
    "rm \\\n-rf /",
    "r\\\nm -rf /",
    "ls\nrm -rf /",
    "ls # \nsudo ls",
    "bash << E\nrm -rf /\nE",
    "bash <<'E'\nsudo ls\nE",
    "cat <<E | sh\nrm -rf /\nE",
    "sh -s <<-E\n\trm -rf /\nE",
    "cat > ~/.bashrc <<E\nx\nE",
    "cat <<E >> ~/.bashrc\nx\nE",
    "cat <<E > .git/hooks/pre-commit\nx\nE",
    "cat <<E\n$(sudo ls)\nE",
    "for i in /\ndo\n  rm -rf $i\ndone",
    "python3 <<E\nx\nE\nsudo ls",
    "rm -rf /\r\n",
    "if true\nthen sudo ls\nfi",
    "eval 'rm \\\n -rf /'",
    "# \\\nsudo ls",
    "make # \\\nsu\\\ndo ls",
    "sh -c '# \\\nsudo ls'",
    "sh -c $'# \\\nsudo ls'",
    "echo \\\\\nsudo ls",
    "cat <<'E'\nx\\\nE\nsudo ls",
    "cat <<E # \\\n$(sudo ls)\nE",
    "cat <<'E' # \\\nE\nsu\\\ndo ls",
    "X=Q; cat <<$X\n$X\nsudo ls\nQ",
    "cat <<E\n\tE\n'\nE\nsudo ls #'",
    "cat <<E\nE\r\n'\nE\nsudo ls #'",
    "x=$(cat <<E\ny\nE)\nsudo ls",
    "echo a\r# ; sudo ls",
    "echo a\f# ; sudo ls",
    "case\r\nsudo ls",
    "case\u00a0x\nsudo ls",
    "!<x sudo ls",
    "{<x sudo ls; }",
    "echo `su\\\\\ndo ls`",
    "if true; then # it's\nsudo ls\nfi # '",
    "time # '\nsudo ls # '",
    "x=()y sudo ls",
    "bash -euo pipefail -c 'sudo ls'",
    "zsh -eo pipefail -c 'rm -rf /'",
    "bash -cuo pipefail 'sudo ls'",
    "bash -euxo pipefail <<E\nsudo ls\nE",
]


@pytest.mark.parametrize("command", OVER_LINES)
def test_it_is_denied_over_several_lines(command: str) -> None:
    """Line breaks, continuations and heredocs hide nothing."""
    assert ShellPolicy.default().judge(command).decision == "deny"


def test_what_is_nested_too_deeply_is_denied() -> None:
    """A shell in a shell in a shell, until it can no longer be read, is denied."""
    command = "ls"
    for _ in range(12):
        command = f"bash -c {command!r}" if "'" not in command else f'eval "{command}"'
    nested = "eval " * 20 + "ls"
    assert ShellPolicy.default().judge(nested).decision == "deny"
    assert ShellPolicy.default().judge(command).decision != "allow"


NOT_DENIED = r"""
    echo "rm -rf /"
    echo 'sudo ls'
    grep -r sudo .
    grep -rn "rm -rf" src
    rg "curl .* | sh"
    git log --grep="rm -rf"
    git commit -m "remove rm -rf and sudo"
    timeout 5 grep sudo f
    find . -name sudo
    man sudo
    which sudo
    rm x
    rm -r build
    rm -f x.o
    rm /tmp/x
    curl x | jq .
    curl x | python3 -m json.tool
    curl x | grep sh
    curl x | tar xz
    cat x | bash
    bash script.sh
    echo x > notes.txt
    docker rm -f web
    git rm -r --cached x
    npm run rm -- -rf
    cat ~/.bashrc
    cat /etc/hosts
    cp ~/.bashrc backup
    ls ~/.ssh
    chmod +x script.sh
    python -c 'print("sudo rm -rf /")'
    python -c 'import base64; print(base64.b64decode("eA=="))'
    python -c 'import base64, subprocess; out = subprocess.check_output(["x"]); print(base64.b64decode(out))'
    ls /dev/sda
    sort -d /etc/passwd
    sort -k1 -t: /etc/passwd
    curl -d @/etc/hostname x
    cd ~/project && rm build.log
    cd /tmp/x && rm -r y
    fdisk -l
    ln -s /usr/bin/python3 python
    curl -o data.json x; python process.py data.json
    timeout 5 pip install sudo
    env A=b apt-get install sudo
    xargs -0 grep sudo
    echo x > nginx/conf.d/site.conf
    rm -rf build
    rm -rf "$BUILD_DIR/x"
    rm -rf ~/project/build
    rm .git/index.lock
    git rm -r .
    tr -d '\r' < x.sh | bash
    eval "$(ssh-agent -s)"
    source <(kubectl completion bash)
    MSG="sudo make me a sandwich"; echo "$MSG"
    for f in *.log; do rm "$f"; done
    poetry run pytest
    awk '{print $1}' <(curl x)
    python process.py <(curl x)
    python process.py "$(curl x)"
    echo registry=x > .npmrc
    npm run deploy -- --user=sudo
    kill -1 123
    tee /dev/tty
    echo x > /dev/shm/y
    echo x > /dev/null
    echo x > /dev/stderr
    systemctl status nginx
    kill -9 1234
    tar czf x.tgz src
    base64 -d x > y
    python x.py | sh -c 'cat'
    setpriv --no-new-privs rg --regexp x
    setpriv --groups 5 -- rg --regexp x
"""


@pytest.mark.parametrize("command", [line.strip() for line in NOT_DENIED.strip().splitlines()])
def test_talking_about_danger_is_not_denied(command: str) -> None:
    """Words that only sound dangerous, and ordinary work, are allowed or asked about."""
    assert ShellPolicy.default().judge(command).decision != "deny"


def test_the_reason_names_the_part() -> None:
    """A verdict says which part of a long line it is about, and why."""
    denied = ShellPolicy.default().judge("cd src && make && sudo make install")
    asked = ShellPolicy.default().judge("ls && npm install left-pad")
    assert denied.command == "sudo make install"
    assert denied.reason == (
        "`sudo make install` is never run: sudo gives it the rights of another user."
    )
    assert asked.command == "npm install left-pad"
    assert asked.reason == (
        "`npm install left-pad` may do more than read: npm is not known to be read-only."
    )


# --- What is denied by where it aims, what is asked about in a sandbox too, and which environment files are named


POLICY = ShellPolicy.default()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work directory two levels below a home."""
    home = tmp_path / "home"
    project = home / "code" / "project"
    (project / "build").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return project


@pytest.mark.parametrize(
    "target",
    [
        "/", "/*", "/usr", "~", "~/", "~/*", "$HOME", '"$HOME"/*', "..", "../", "../..", "../*", "build/../..", ".",
        "./", '"$PWD"', ".git", "./.git/", "build/../.git", "{project}", "{project}/.git", "{home}", "{home}/code",
        "../project", "../project/.git", ".g*", ".GIT",
        "~/.bashrc", "~/.ssh", "~/.ssh/config", ".hookline", "/etc/hosts", ".git/hooks", "AGENTS.md", "/home/somebody",
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["rm -rf {}", "rm {}", "env rm -r {}", "find . -exec rm {} +"])
def test_a_removal_of_what_matters_is_denied(project: Path, target: str, command: str) -> None:
    """The root, a home, what is above, the work directory, its `.git`, and what others obey."""
    places = {"project": str(project), "home": str(project.parents[1])}
    text = command.format(target.format(**places))
    assert POLICY.judge(text, root=str(project)).decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf build", "rm -rf ./build/*", "rm *.pyc", "rm -f *.o", "rm ../sibling", "rm /tmp/x", "rm file",
        "find . -name '*.pyc' -delete", "git clean -ndx", "git clean -n", "git clean --dry-run -d -x -q",
        "git commit -m clean", "rm .git/index.lock",
        "git checkout -- .", "git reset --hard", "rm -rf node_modules dist", "rm -rf 'my dir'", "rm -rf */dist",
        "find . -name node_modules -exec rm -rf {} +", "rm -f *.o 2>/dev/null || true",
        "cd build && rm -rf x", "find . -type d -name __pycache__ -exec rm -rf {} +", "rm -rf node_modules", "mv a b",
        "find build ./src -maxdepth 3 -mindepth 1 -type f -iname '*.O' -exec rm -f {} \\;", "rm -rf build dist",
        "find . -name '*.o' -type f -delete", "bash -c 'rm -rf build'", "bash -lc 'cd build && rm -f *.o'",
        "git rm -r build", "echo 'rm -rf *' >> notes.md", "git commit -m 'no more rm -rf'", "npm rm left-pad",
        "rm -rf build && X=$HOME make", "npx prettier src/rm.js",
        "git -c core.pager=cat log", "git commit -m alias.x", "rm -- -x", "echo rm x; rm x; rm xy",
        "rm -rf build && make -j$(nproc)", "if [ -d build ]; then rm -rf build; fi", "rm -rf \\\n  build",
        "cat > clean.sh <<'E'\n#!/bin/sh\nrm -rf \"$1\"\nE", "cat > Makefile <<E\nclean:\n\trm -r $X\nE\nmake",
        "git commit -m \"$(cat <<'E'\nUse rm, not shred\nE\n)\"", "# rm it first\nmake", "tee x <<E\nrm y\nE",
        'echo "$X is a file that rm removes" >> notes.md', "python3 x.py && git commit -m 'no rm'", "make clean",
        "sh -c 'echo rm; rm -rf build'", "docker run --rm -it x", "git switch fix/clean", "git log --grep='clean up'",
        "python3 alias.py; git add include.h", "./gradlew clean -x test",
        "make # rm is not called", "make # \\\nls", "git log --grep='rm -rf'", "git log -S rm", "git remote rm old",
        "docker image rm x", "docker compose rm -f", "gh pr create --body 'no rm'",
        "echo 'rm x' >> notes.md; make", "./build.sh; git commit -m 'no rm'",
    ],
)  # fmt: skip
def test_an_ordinary_removal_asks_on_the_host_alone(project: Path, command: str) -> None:
    """What can be built again, or git brings back, runs in a sandbox."""
    verdict = POLICY.judge(command, root=str(project))
    assert (verdict.decision, verdict.asks_in_sandbox) == ("ask", False)


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf *", "rm -rf ./*", "rm -rf .[!.]* *", "rm -rf .*", "rm *", "rm -rf {project}/*", 'rm -rf "$PWD"/*',
        "rm -rf build/../*", "find . -delete", "find . -type f -delete", "find . -mindepth 1 -delete", "find -delete",
        "find . ! -name x -delete", "find . -not -name x -delete", "find . -name '*' -delete",
        "find {project} -delete", "find . -type f -exec rm {{}} +", "find . -print0 | xargs -0 rm",
        "ls | xargs rm -rf", "ls -A | xargs rm -r", "git clean -fdx", "git clean -xdf .", "git clean -d --force",
        "git -C . clean -ffdx", "bash -c 'rm -rf *'", "cd build && cd .. && rm -rf *", "echo * | xargs rm -rf",
        "eval 'git clean -fdx'", "true; rm -rf *", "if true; then rm -rf *; fi", "shred *", "rm -rf {{*,.[!.]*}}",
        'rm -rf "$(pwd)"', "rm -rf `pwd`", 'rm -rf "$(git rev-parse --show-toplevel)"', 'rm -rf "$(pwd)"/*',
        "rm -rf $(ls)", "rm $(ls)", "rm -rf [a-z]*", "rm -rf ?[a-z]*", "rm -rf b* [c-z]*", "find * -delete",
        'printf "%s\\0" * | xargs -0 rm -rf', "for f in $(ls); do rm -rf $f; done", "for f in *; do rm $f; done",
        "find . -path ./.git -prune -o -type f -exec rm {{}} +", "git ls-files -o | xargs rm", "rm -rf */*",
        "git clean -dfx -e keep", "git -c clean.requireForce=false clean -dx", "git clean -fdx -enode_modules",
        "git clean -fd build", "find . -type d -empty -delete", "find . -delete -name x",
        "find . -name '[a-z]*' -delete", "fd -x rm", 'rm -rf "$DIR"', 'rm -rf "$DIR"/*', "rm -rf $DIR/x",
        "cd build; rm -rf *", "(cd build; make); rm -rf *", "find . ! -lname -name -readable -delete",
        "find . -mindepth 1 -name '[!]a]*' -exec rm -rf {{}} +", "find . -name '*[]!-~a]*' -delete",
        "find . -name -delete", "find . -name '*.o' -not -path './x/*' -delete",
        "find . -name .git -prune -o -name '*.o' -delete", "find . -name __ -delete", "rm $f",
        'f() {{ rm "$@"; }}; f -rf *', "echo .. | while read -r x; do rm $x; done", "rm -rf -- -x/../*",
        "git clean -dx", "echo -delete | xargs find .", "mise exec -- find . -delete", "rm -rf [a-z]*/",
        "xargs rm -rf < list", "git -C 'my x' clean -fdx", 'set -- rm -rf *; "$@"', "alias x='rm -rf *'; x",
        "# \\\nrm -rf *", "r\\\nm -rf *", "find . -de''lete", "x=clean; git $x -fdx", "make # \\\nrm -rf *",
        "echo 'a # \\\n'; rm -rf *", "cat <<'E'\na\\\nE\nrm -rf *", "echo \\\\\nrm -rf *",
        "git log --grep=x; rm -rf *",
    ],
)  # fmt: skip
def test_a_removal_of_everything_asks_in_the_sandbox_too(project: Path, command: str) -> None:
    """What is untracked cannot be restored. So does a removal of what is not known: `xargs rm`, `rm -r "$x"`."""
    verdict = POLICY.judge(command.format(project=project), root=str(project))
    assert (verdict.decision, verdict.asks_in_sandbox) == ("ask", True)


@pytest.mark.parametrize(
    "command",
    [
        "env rm x", "find build -delete", "rm -rf ../sibling", "find . -name x -exec rm -rf {{}} +",
        "git -c alias.c='clean -fdx' c", "git submodule foreach 'git clean -fdx'",
        'python3 -c \'import os; os.system("rm -rf *")\'', 'a=(rm -rf *); "${{a[@]}}"', "sh clean.sh",
        "ln -s . l; rm -rf l/*", "git clean -n --no-dry-run -fd", "make SHELL='rm -rf *'",
    ],
)  # fmt: skip
def test_other_ways_to_remove_are_not_looked_for(project: Path, command: str) -> None:
    """The question is for plain mistakes. Other programs, options and settings are not searched for removers."""
    verdict = POLICY.judge(command.format(project=project), root=str(project))
    assert (verdict.decision, verdict.asks_in_sandbox) == ("ask", False)


@pytest.mark.parametrize(
    "command",
    [
        "find -O3 ~ -delete",
        "find -- ~ -delete",
        "find -D search / -delete",
        "find -L -O1 .. -delete",
        "find ~ -exec sh -c 'rm -rf \"$0\"' {} \\;",
    ],
)
def test_options_of_find_do_not_hide_where_it_begins(project: Path, command: str) -> None:
    """Options may stand before the directories, one of them with a value."""
    assert POLICY.judge(command, root=str(project)).decision == "deny"


def test_a_removal_through_a_link_is_one_of_where_it_leads(project: Path) -> None:
    """A slash behind a link, or a pattern below it, is about what is there; the link alone is about itself."""
    (project / ".git").mkdir()
    (project / ".git" / "x1").touch()
    for name, target in (("hlink", project.parents[1]), ("selflink", "."), ("glink", ".git")):
        (project / name).symlink_to(target)
    denied = [
        "hlink/",
        "hlink/*",
        "hlink/.",
        "hlink/code",
        "selflink/",
        "glink/*",
        "glink/",
        ".git/*",
        "/home/*",
    ]
    for target in denied:
        assert POLICY.judge(f"rm -rf {target}", root=str(project)).decision == "deny"
    for command in (
        "find . -name .git -exec rm -rf {} +",
        "find glink/ -delete",
        "find . -name '.g*' -delete",
    ):
        assert POLICY.judge(command, root=str(project)).decision == "deny"
    for target, asks in (("selflink/*", True), ("hlink/x", False), ("hlink", False)):
        verdict = POLICY.judge(f"rm -rf {target}", root=str(project))
        assert (verdict.decision, verdict.asks_in_sandbox) == ("ask", asks)


def test_a_removal_behind_more_than_can_be_looked_at_asks(project: Path) -> None:
    """Commands in front of it hide nothing, and many commands alone are no reason to ask in a sandbox."""
    many = "true;" * 500
    assert POLICY.judge(f"{many} rm -rf *", root=str(project)).asks_in_sandbox
    assert not POLICY.judge(f"{many} ls", root=str(project)).asks_in_sandbox


def test_a_rule_is_not_passed_by_more_than_can_be_looked_at(project: Path) -> None:
    """Where a rule denies or asks, a line that was not looked at as a whole asks in the sandbox too."""
    for policy in (POLICY.with_rules(deny=["terraform *"]), POLICY.with_rules(ask=["terraform *"])):
        for many in ("true;" * 500, "# \\\n" * 500):
            verdict = policy.judge(f"{many} echo $(terraform apply)", root=str(project))
            assert (verdict.decision, verdict.asks_in_sandbox) == ("ask", True)
        assert not policy.judge("make all", root=str(project)).asks_in_sandbox


def test_a_rule_that_asks_asks_in_the_sandbox_too(project: Path) -> None:
    """Who writes a rule means it everywhere; one that allows lifts the question."""
    asking = POLICY.with_rules(ask=["make *"])
    verdict = asking.judge("make all", root=str(project))
    assert (verdict.decision, verdict.asks_in_sandbox) == ("ask", True)
    assert not asking.judge("npm test", root=str(project)).asks_in_sandbox
    allowing = POLICY.with_rules(allow=["git clean *"])
    assert allowing.judge("git clean -fdx", root=str(project)).decision == "allow"


def test_a_write_through_a_link_is_a_write_to_where_it_leads(project: Path) -> None:
    """A link to a start-up file is that file."""
    (project / "notes").symlink_to(project.parents[1] / ".bashrc")
    for command in ("echo x > notes", "tee notes", "sed -i s/a/b/ notes", "cp build notes"):
        assert POLICY.judge(command, root=str(project)).decision == "deny"
    assert POLICY.judge("echo x > other", root=str(project)).decision == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "cp f ~/.config/hookline/trusted-projects.json", "cp f ~/.config/git/config", "cp -r hooks .git/",
        "echo x > ~/.config/hookline/config.toml", "mv hooks .git/", "mv hooks .git", "tar -xf x.tar -C .git",
        "find . -name x -exec cp {} .git/hooks/ \\;", "rm -rf ~/.config/hookline", "cp x .git/modules/a/hooks/y",
        "cp -r hooks glink/", "cp x glink/hooks/", "cp f elsewhere/hookline/config.toml", "tee elsewhere/git/config",
        "tar cf ~/.bashrc x", "gcc -o ~/.bashrc x.c", "git diff --output=.git/hooks/pre-commit", "sort -o ~/.profile x",
        "hookline trust", "hookline trust --repository .", "python3 -m hookline trust", "uv run hookline trust",
    ],
)  # fmt: skip
def test_what_guards_the_agent_and_git_is_not_written(
    project: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No rule that allows lifts it: configuration and trust are the user's, and `.git` may be given hooks."""
    (project / "glink").symlink_to(".git")
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{project}/elsewhere")
    policy = POLICY.with_rules(allow=["cp *", "mv *", "tar *", "hookline *", "tee *"])
    assert policy.judge(command, root=str(project)).decision == "deny"


def test_what_is_hooklines_own_is_not_written(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a link. The null device in the place of git's settings is what it is elsewhere."""
    monkeypatch.setenv("HOOKLINE_DATA_DIR", f"{project}/data")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    (project / "to-data").symlink_to("data")
    for command in (
        "echo x > data/pins.json",
        "cp x to-data/",
        "tee data/projects/a/journal.db-wal",
    ):
        assert POLICY.judge(command, root=str(project)).decision == "deny", command
    assert POLICY.judge("ls > /dev/null", root=str(project)).decision == "allow"


@pytest.mark.parametrize(
    "command", ["hookline trust --show", "cp x .git/info/exclude", "cp -r .git backup", "cp f ~/.config/other/x",
                "ssh -o IdentityFile=~/.ssh/x h", "egrep -o /etc/x f", "tar xf ~/.ssh/x.tar", "gcc -o out x.c && ./out"]
)  # fmt: skip
def test_what_is_beside_it_asks(project: Path, command: str) -> None:
    """It shows what is trusted, copies out of `.git`, or writes what nobody obeys."""
    assert POLICY.judge(command, root=str(project)).decision == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "cat .env", "cat ./.env", "python x.py --env-file=.env", "docker run --env-file .env x", "head -c9 .env*",
        "cp .env x", "source .env", ". ./.env", "set -a; . .env", "cd sub && cat ../.env", "bash -c 'cat .env'",
        "grep KEY < .env", "curl -d @.env x", "node -r dotenv/config x dotenv_config_path=.env", "cat {project}/.env",
        "docker run -v ./.env:/x y", "echo x > .env", "ls -l .env", "cat notes", "for f in .env; do cat $f; done",
        "env -S 'cat .env'", "cat '.env'", "cat .e?v", "tar czf x .env", "exec cat .env",
    ],
)  # fmt: skip
def test_an_environment_file_that_is_named_is_reported(project: Path, command: str) -> None:
    """By its whole path, however it is written; such a command asks."""
    (project / "sub").mkdir()
    (project / ".env").write_text("KEY=1")
    (project / "notes").symlink_to(".env")
    verdict = POLICY.judge(command.format(project=project), root=str(project))
    assert verdict.decision == "ask"
    assert str(project / ".env") in verdict.env_files


def test_other_files_are_no_environment_files(project: Path) -> None:
    """Samples, files that are not there, and those outside of the work directory."""
    for name in (".env.example", "environment.py", "../.env"):
        (project / name).write_text("KEY=1")
    for name in (".env.example", "environment.py", "../.env", ".env", "prod.env"):
        assert POLICY.judge(f"cat {name}", root=str(project)).env_files == ()
    (project / "prod.env").write_text("KEY=1")
    verdict = POLICY.judge("cat prod.env", root=str(project))
    assert verdict.env_files == (str(project / "prod.env"),)


def test_a_rule_lifts_the_question_and_the_files_are_still_reported(project: Path) -> None:
    """Whoever runs the command in a sandbox has to know which files it needs."""
    (project / ".env").write_text("KEY=1")
    policy = POLICY.with_rules(allow=["cat .env"])
    verdict = policy.judge("cat .env", root=str(project))
    assert (verdict.decision, verdict.env_files) == ("allow", (str(project / ".env"),))


def test_to_keep_a_copy_of_decoded_text_is_not_to_run_it() -> None:
    """`tee` stores it; only what runs the file is denied."""
    policy = ShellPolicy.default()
    assert policy.judge("tr a-z A-Z < letters.txt | tee upper.txt").decision == "ask"
    assert policy.judge("base64 -d x | tee y; bash ./y").decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "git config core.fsmonitor ./x",
        "git config --global core.editor 'code --wait'",
        "git -C sub config core.hooksPath hooks",
        "git config set core.pager ./x",
        "git config --add include.path ../evil",
        "git config -f .git/config diff.x.textconv ./x",
        "git config alias.st '!./x'",
        "git config credential.https://example.com.helper ./x",
        "cd sub && git config filter.lfs.clean ./x",
    ],
)
def test_a_setting_that_names_a_program_for_git_is_denied(project: Path, command: str) -> None:
    """git would run it for whatever the user asks of it."""
    assert POLICY.judge(command, root=str(project)).decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "git config user.name x",
        "git config core.fsmonitor false",
        "git config core.pager",
        "git config --get core.editor vim",
        "git config --unset core.fsmonitor",
        "git config alias.st status",
        "git config http.postBuffer 1000",
        "git log core.pager x",
    ],
)
def test_another_setting_of_git_is_not_denied(project: Path, command: str) -> None:
    """It is read, removed, or names no program: a person decides."""
    assert POLICY.judge(command, root=str(project)).decision == "ask"
