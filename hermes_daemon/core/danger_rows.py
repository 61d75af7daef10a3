"""The table of dangerous commands: one row a kind of danger, its patterns matched at the start of a simple command."""

from __future__ import annotations

import re

import msgspec


class Danger(msgspec.Struct, frozen=True):
    """`key` is stable, `words` complete the sentence "this command …"."""

    key: str
    words: str


def _row(key: str, words: str, *patterns: str) -> tuple[Danger, re.Pattern[str]]:
    return Danger(key, words), re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.DOTALL)


# The text is canonical: the program without its folder, arguments without quotes, redirects last. What is only spoken
# of stands behind another program (`echo rm -rf x`) and is no match.
ROWS = (
    _row("recursive_delete", "deletes folders with everything in them", r"rm\b.*\s(?:-[a-zA-Z]*[rR]|--recursive\b)"),
    _row("find_delete", "deletes every file it finds", r"find\b.*\s-delete\b"),
    _row("shred", "destroys file contents for good", r"(?:shred|srm)\b", r"truncate\b.*\s(?:-s|--size)[= ]?0\b"),
    _row("rsync_delete", "deletes what the source does not have", r"rsync\b.*\s--(?:delete|remove-source)"),
    _row("lost_move", "moves files where they are lost", r"mv\b.*\s/dev/null$"),
    _row(
        "git_discard",
        "discards changes or history",
        r"git\b.*\sreset\s.*--hard",
        r"git\b.*\sclean\b.*\s-\w*[fdx]",
        r"git\b.*\scheckout\s(?:.*--\s|.*-f\b|(?:.*\s)?\.$)",
        r"git\b.*\srestore\b(?!.*--staged)",
        r"git\b.*\sstash\s(?:drop|clear)",
        r"git\b.*\sbranch\s.*(?:-D|--delete)",
        r"git\b.*\s(?:reflog\s(?:expire|delete)|filter-branch|filter-repo|update-ref\s.*-d|worktree\sremove|rm\b)",
    ),
    _row(
        "git_push_force",
        "overwrites or deletes remote history",
        r"git\b.*\spush\b.*\s(?:--force\S*|-\w*f\w*|--mirror|--delete|-d|--prune|\+\S+|:\S+)",
    ),
    _row(
        "git_config_run",
        "makes git run other programs",
        r"git\b.*\sconfig\s.*(?i:core\.(?:hookspath|pager|editor|sshcommand|fsmonitor)|alias\.|credential\.)",
        r"git\s-c\s",
    ),
    _row(
        "permissions_wide",
        "opens files to everybody, or lets them run as their owner",
        r"chmod\b.*\s0?[0-7]?[0-7][0-7][2367]\b",
        r"chmod\b.*\s0?[2-7][0-7]{3}\b",
        r"chmod\b.*\s(?:[ug]*[ao]\w*[+=]\w*w|[ugoa]*\+\w*s)",
    ),
    _row("permissions_tree", "changes rights of a whole tree", r"ch(?:mod|own|grp)\b.*\s(?:-\w*R|--recursive)"),
    _row("attributes", "changes protected file attributes", r"(?:chattr|setfacl|chflags|xattr)\b"),
    _row("root", "runs with another user's rights", r"(?:sudo|doas|su|pkexec|runuser)\b"),
    _row("eval_computed", "runs text that is computed first", r"eval\b.*(?:\$|`)"),
    _row(
        "upload",
        "sends files or data to another machine",
        r"(?:curl|wget|https?|xh)\b.*\s(?:-d\s?@|--data\S*[= ]@|-F\b|--form|-T\b|--(?:upload|post|body)-file)",
        r"(?:scp|sftp|ftp|rclone|croc)\b",
        r"rsync\b.*\s\S+:",
        r"aws\s+s3\s+(?:cp|mv|sync)\b",
    ),
    _row("raw_network", "opens a raw network connection", r"(?:nc|ncat|netcat|socat|telnet)\b", r"ssh\b.*\s-\w*[RLDN]"),
    _row("remote", "runs a command on another machine", r"(?:ssh|mosh|ansible|ansible-playbook|salt|pdsh)(?:\s|$)"),
    _row(
        "system_software",
        "installs, changes or removes system software",
        r"(?:apt|apt-get|aptitude|dnf|yum|zypper|apk|brew|port|snap|flatpak)\b.*\s"
        r"(?:install|reinstall|remove|purge|erase|(?:dist-|full-)?upgrade|update|autoremove|uninstall|add|del)\b",
        r"(?:pacman|emerge|nix-env)\b.*\s-[SRUieC]",
        r"(?:dpkg|rpm)\b.*\s(?:-i|-U|-e|-r|-P|--install|--remove|--purge|--erase)\b",
    ),
    _row(
        "global_packages",
        "installs packages outside the project",
        r"(?:npm|pnpm|yarn|bun)\b.*\s(?:-g|--global|global\sadd)\b",
        r"pip\d?\b.*\sinstall\b.*\s(?:--break-system-packages|--user|--target)",
        r"gem\s.*install",
    ),
    _row(
        "publish",
        "publishes something for others",
        r"(?:npm|pnpm|yarn|cargo|poetry|uv|flit|hatch|vsce|ovsx)\b.*\spublish\b",
        r"(?:twine\s+upload|gem\s+push)\b",
        r"(?:docker|podman)\s.*push\b",
        r"gh\s+\w+\s+(?:create|merge|delete|close|edit|comment|upload|archive|rename)\b",
        r"gh\s+api\b.*\s-X",
    ),
    _row(
        "containers",
        "removes containers, or gives one the host",
        r"(?:docker|podman|nerdctl)\b.*\s(?:rm|rmi|prune|kill|stop|down)\b",
        r"(?:docker|podman|nerdctl)\b.*\s(?:--privileged|--(?:pid|net|network)[= ]host|-v\s?/:|--mount\s.*src=/,)",
    ),
    _row(
        "cluster",
        "changes a running cluster or cloud",
        r"(?:kubectl|oc)\b.*\s(?:delete|drain|cordon|apply|replace|patch|scale|exec|rollout|edit|create)\b",
        r"helm\b.*\s(?:install|upgrade|uninstall|delete|rollback)\b",
        r"(?:terraform|tofu|pulumi|cdk)\b.*\s(?:apply|destroy|up|deploy|import)\b",
        r"(?:aws|gcloud|az|doctl|flyctl|fly|heroku|vercel|netlify)\b.*\s"
        r"(?:delete\S*|rm|remove|destroy|terminate\S*|deploy|put-\S+|create-\S+)(?:\s|$)",
    ),
    _row(
        "database",
        "deletes data in a database",
        r"(?:psql|mysql|mariadb|sqlite3|duckdb|clickhouse-client|sqlcmd)\b.*(?i:\b(?:drop|truncate)\s+\w+)",
        r"(?:psql|mysql|mariadb|sqlite3|duckdb|sqlcmd)\b.*(?i:\bdelete\s+from\b)(?!.*(?i:\bwhere\b))",
        r"redis-cli\b.*(?i:flush(?:all|db))",
        r"mongosh?\b.*(?:\.drop(?:Database)?\(|deleteMany\()",
        r"drop(?:db|user)\b",
    ),
    _row(
        "disk",
        "works on disks or file systems",
        r"dd\b.*\sof=",
        r"(?:s?fdisk|cfdisk|parted|[sg]gdisk|gdisk|mount|umount|losetup|cryptsetup|mkswap|swapon|swapoff)\b",
        r"(?:lvremove|vgremove|pvremove|resize2fs|fsck\S*|diskutil|hdiutil)\b",
        r"(?:zpool|zfs)\s.*destroy",
        r"btrfs\s+subvolume\s+delete",
    ),
    _row(
        "kernel",
        "changes the kernel or the network of this machine",
        r"(?:insmod|modprobe|rmmod|kexec|ip6?tables\S*|nft|ufw|firewall-cmd|setenforce)\b",
        r"(?:ifconfig|route|nmcli|networksetup|pfctl)\b",
        r"sysctl\b.*(?:-w|=)",
        r"ip\s+(?:link|addr|route|rule|netns)\s+(?:set|add|del|flush|replace)",
    ),
    _row(
        "users",
        "changes users or passwords",
        r"(?:user(?:add|del|mod)|group(?:add|del|mod)|passwd|chpasswd|chsh|visudo|adduser|deluser|gpasswd|dscl)\b",
    ),
    _row(
        "services",
        "changes services or planned tasks",
        r"systemctl\b.*\s(?:start|stop|restart|reload|enable|disable|mask|unmask|kill|isolate|edit|set-\S+|daemon-re\S+)\b",
        r"service\s+\S+\s+\w+",
        r"crontab\b(?!.*\s-l\b)",
        r"(?:at|batch|launchctl|supervisorctl|rc-service|initctl)(?:\s|$)",
    ),
    _row(
        "processes",
        "stops processes it did not start",
        r"(?:pkill|killall|xkill)\b",
        r"fuser\b.*\s-\w*k",
        r"kill\b.*\s(?:-9|-KILL|-SIGKILL)\b",
    ),
    _row(
        "inline_delete",
        "runs code that deletes files or starts programs",
        r"(?:python[\d.]*|perl|ruby|node|deno|bun|php|lua)\b.*\s-(?:\w*[cepr]|-eval|-print)\b.*(?:rmtree|\bos\."
        r"(?:remove|unlink|rmdir|system|popen|exec|kill)|subprocess|unlink|rm_rf|rm_r\b|rmSync|rmdirSync|child_process|"
        r"\bsystem\b|\bexec\b|shell_exec|FileUtils)",
    ),
    _row(
        "history",
        "hides what was done",
        r"history\b.*\s-[cdw]",
        r"unset\s+HISTFILE",
        r"(?:rm|truncate|ln)\b.*_history\b",
        r"journalctl\b.*--vacuum",
    ),
    _row(
        "self",
        "changes or stops the daemon that asks",
        r"hermes(?:-daemon)?\b.*\s(?:config\s+set|stop|restart|delete|--yolo)",
        r"\S*kill\S*\s.*\bhermes",
    ),
    _row(
        "secret_stores",
        "reads or changes stored secrets",
        r"security\s+(?:find|add|delete|dump)-",
        r"(?:pass|gopass|bw|op|vault|lpass)\s+(?:show|get|read|rm|delete|insert|kv)",
        r"gpg\b.*--(?:export-secret|delete)",
        r"(?:secret-tool|ssh-add|ssh-keygen|ssh-copy-id)\b",
        r"gh\s+auth\s+token",
    ),
    _row("trace", "looks into other processes", r"(?:gdb|lldb|strace|ltrace|nsenter)\b.*\s-p\b", r"gcore\b"),
    _row("hooks", "replaces how later commands run", r"(?:alias\s+\w+=|enable\s+-f|hash\s+-p|update-alternatives\b)"),
    _row(
        "unpack_root",
        "unpacks over the system",
        r"(?:tar|bsdtar)\b.*\s(?:-C\s?/(?:\s|$)|--directory[= ]/(?:\s|$)|-\w*P\b|--absolute-names)",
        r"unzip\b.*\s-d\s?/(?:\s|$)",
    ),
)
