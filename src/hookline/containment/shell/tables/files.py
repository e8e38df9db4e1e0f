"""Programs that say what files there are, and what they are like; not what is in them."""

from __future__ import annotations

from hookline.containment.shell.options import Program, only
from hookline.containment.shell.tables.checks import plain_names

_GNU = " --help --version"
_NO_ARCHIVE = (
    r"(?!.*\.(?:[tw]?ar|zip|t?gz|t?bz2|t?xz|Z|7z|rpm|deb|jar|dmg|whl|conda|msi)$)(?!-)[\w./@+-]+"
)


def tame(
    flags: str = "",
    *,
    texts: str = "",
    takes: str = "",
    maybe: str = "",
    operands: int | None = None,
) -> Program:
    """A program that shows no contents, none of whose options does harm; its manual was read for it."""
    options = only(
        flags + _GNU, texts=texts, takes=takes, maybe=maybe, operands=operands, tame=True
    )
    return Program(options, reads=False)


_LS = """
    -1 -a -A -b -B -c -C -d -D -e -f -F -g -G -h -H -i -k -l -L -m -n -N -o -O -p -P -q -Q -r -R -s -S -t -u -U -v -W -x
    -X -Z -@ -% --all --almost-all --author --escape --ignore-backups --directory --dired --file-type --full-time
    --group-directories-first --no-group --human-readable --si --dereference --dereference-command-line
    --dereference-command-line-symlink-to-dir --inode --kibibytes --numeric-uid-gid --literal --hide-control-chars
    --show-control-chars --quote-name --reverse --recursive --size --context --zero
"""
_DU = only(
    """
    -0 -a -A -b -c -D -g -h -H -k -l -L -m -P -s -S -x --null --all --apparent-size --bytes --total --dereference-args
    --human-readable --inodes --count-links --dereference --no-dereference --separate-dirs --si --summarize
    --one-file-system
    """
    + _GNU,
    texts="-B -d -I -t --block-size --max-depth --threshold --time-style --exclude",
    maybe="--time",
    loose=True,
    shows=False,
)  # --files0-from prints what a file holds
_TREE = only(
    """
    -a -d -l -f -x -q -N -Q -p -u -g -s -h -D -F -v -t -c -U -r -i -A -S -n -C -X -J --gitignore --ignore-case
    --matchdirs --metafirst --prune --noreport --si --du --inodes --device --dirsfirst --filesfirst --nolinks
    """
    + _GNU,
    texts="-L -P -I --charset --filelimit --timefmt --sort",
    glues=False,
)
_FILE = only(
    """
    -b -E -h -i -I -k -l -L -N -n -r -s -v -z -Z -0 --apple --brief --extension --no-dereference --mime --mime-type
    --mime-encoding --keep-going --list --dereference --no-pad --no-buffer --raw --special-files
    --uncompress --uncompress-noreport --print0
    """
    + _GNU,
    texts="-e -F -P --exclude --exclude-quiet --separator --parameter",
)  # -p sets times, and -C writes: a file that is called `-Cmx` would do it
_EZA = """
    -1 -l -G -x -R -T -F -a -d -r -D -f -b -B -g -h -H -i -m -n -S -t -u -U -X -Z -@ --oneline --long --grid --across
    --recurse --tree --no-icons --all --list-dirs --reverse --group-directories-first
    --only-dirs --only-files --git-ignore --binary --bytes --group --header --links --inode --modified --numeric
    --blocks --accessed --created --git --no-git --extended --no-permissions --no-filesize --no-user --no-time
    --total-size --smart-group --dereference --follow-symlinks
"""
_LSD = """
    -a -A -F -l -1 -R -d -t -S -X -v -r -h -Z -g -I --all --almost-all --classify --long --oneline --recursive --tree
    --directory-only --total-size --timesort --sizesort --extensionsort --gitsort --versionsort --reverse --classic
    --no-symlink --inode --dereference --header --git --human-readable
"""

FILES: dict[str, Program] = {
    "ls": tame(
        _LS,
        texts="""
        -I -T -w --block-size --format --hide --indicator-style --ignore --quoting-style --sort --time --time-style
        --tabsize --width
        """,
        maybe="--color --hyperlink --classify",
    ),
    "stat": tame(
        "-L -f -t -x -s -l -n -q -r -F --dereference --file-system --terse",
        texts="-c --format --printf --cached",
    ),
    "df": tame(
        """
        -a -b -g -h -H -i -I -k -l -m -n -P -T -v -Y --all --human-readable --si --inodes --local --no-sync
        --portability --sync --total --print-type
        """,
        texts="-B -t -x --block-size --type --exclude-type",
        maybe="--output",
    ),
    "du": Program(_DU, reads=False),
    "tree": Program(_TREE),
    "file": Program(_FILE),
    "basename": tame("-a -z --multiple --zero", texts="-s --suffix"),
    "dirname": tame("-z --zero"),
    "realpath": tame(
        """
        -e -m -L -P -q -s -z --canonicalize-existing --canonicalize-missing --logical --physical --quiet --strip
        --no-symlinks --zero
        """,
        texts="--relative-to --relative-base",
    ),
    "readlink": tame(
        """
        -f -e -m -n -q -s -v -z --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet
        --silent --verbose --zero
        """
    ),
    "pathchk": tame("-p -P --portability"),
    "which": tame("-a -s -v --all --skip-alias --skip-functions --tty-only"),
    "whereis": tame("-a -b -m -q -s -u -l -h -V", takes="-B -M -S"),
    "lsattr": tame("-R -V -a -d -l -p -v"),
    "getfacl": tame(
        """
        -a -c -d -e -E -s -R -L -P -t -p -n -v -h --access --default --omit-header --all-effective --no-effective
        --skip-base --recursive --logical --physical --tabular --absolute-names --numeric
        """
    ),
    "namei": tame(
        "-l -m -n -o -v -x -h -V --long --modes --nosymlinks --owners --vertical --mountpoints"
    ),
    "locate": Program(
        only(
            """
            -A -b -c -e -i -n -P -q -w -0 --all --basename --count --existing --ignore-case --wholename
            --null --quiet
            """,
            texts="-l -r --limit --regexp --regex",
        ),
        reads=False,
    ),
    **dict.fromkeys(
        ("exa", "eza"),
        Program(
            only(
                _EZA,
                texts="-L -s -I -w --level --sort --ignore-glob --width --time --time-style",
                maybe="--color --colour --icons --classify --hyperlink --color-scale",
                loose=True,
            ),
            reads=False,
        ),
    ),
    "lsd": Program(
        only(
            _LSD,
            texts="""
            --depth --group-dirs --group-directories-first --sort --size --date --permission --blocks
            --color --icon --icon-theme --ignore-glob
            """,
            loose=True,
        ),
        reads=False,
    ),
    "tokei": Program(
        only(
            "-f -C -h -V --files --compact --hidden --no-ignore",
            texts="-e -t -s -o -c --exclude --type --types --sort --output --columns",
        ),
        reads=False,
    ),
    "scc": Program(
        only(
            "-c -w --by-file --no-cocomo --no-complexity --wide",
            texts="-f -i -s --format --include-ext --sort --exclude-dir",
        ),
        reads=False,
    ),
    "cloc": Program(  # what is in an archive it unpacks with a program
        only(
            """
            --by-file --by-file-by-lang --json --yaml --xml --csv --md --quiet --hide-rate --sum-one
            --skip-uniqueness --no-autogen --docstring-as-code
            """,
            texts="""
            --exclude-dir --exclude-ext --exclude-lang --include-ext --include-lang --fullpath --match-d --match-f
            --not-match-d --not-match-f --timeout --max-file-size
            """,
            bundles=False,
            check=plain_names(_NO_ARCHIVE),
        ),
        reads=False,
    ),
    "mdls": Program(only("-raw -nullMarker", texts="-name", bundles=False), reads=False),
    "mdfind": Program(
        only("-count -literal -0", texts="-name -onlyin", bundles=False), reads=False
    ),
    "modinfo": tame(
        "-a -d -l -p -n -0 -V --author --description --license --parameters --filename --null",
        texts="-F -k --field --set-version",
        takes="-b --basedir",
    ),
    "fc-list": tame("-v -q -V -h --verbose --quiet", texts="-f --format"),
    "otool": Program(only("-a -d -f -h -l -L -D -o -t -v -V -X -r -S -T -I -M -H -G"), reads=False),
}
