# Starts a server, and removes it when the test process is gone.
#
# $1: the throw-away folder, which must not exist yet; $2: the folder of PostgreSQL's programs.
#
# Standard input is a pipe whose writing end the test process holds (several processes, once it is a shared server). Each line is a
# command, answered by one line on standard output. The kernel closes the pipe when its last holder ends, however it ends: then the
# loop below ends too, the server is killed and the folder removed.

# A terminal's Ctrl-C is for the test; we end through the pipe alone. PIPE: an answer nobody reads any more must not end us.
trap '' HUP INT TERM PIPE
umask 077
folder=$1
bin=$2
data=$folder/data
log=$folder/server.log
pid=

mkdir "$folder" 2>/dev/null || exit 1
echo ok

# The processes of the server are those that work in its data folder: true of the postmaster and of every process it ever forked,
# also of those that outlive it.
members() {
    for process in /proc/[0-9]*; do
        [ "$process/cwd" -ef "$data" ] && printf '%s ' "${process#/proc/}"
    done
}

postmaster_runs() {
    [ -n "$pid" ] || return 1
    state=Z
    { read -r _ _ state _ <"/proc/$pid/stat"; } 2>/dev/null
    [ "$state" != Z ]
}

while read -r command argument; do
    case $command in
    initdb)
        "$bin/initdb" -D "$data" -U postgres -A trust --encoding=UTF8 --locale=C --no-sync </dev/null >>"$log" 2>&1
        echo $?
        ;;
    copy)
        cp -R -p "$argument" "$data" </dev/null >>"$log" 2>&1
        echo $?
        ;;
    folder)
        mkdir "$folder/$argument" >>"$log" 2>&1
        echo $?
        ;;
    standby)
        : >"$data/standby.signal"
        echo $?
        ;;
    start)
        [ -n "$pid" ] && wait "$pid"
        # 3 and 4: see `fifo`. A server that held them would keep itself alive.
        "$bin/postgres" -D "$data" -c "config_file=$folder/postgresql.conf" </dev/null >>"$log" 2>&1 3>&- 4>&- &
        pid=$!
        echo "$pid"
        ;;
    fifo)
        # From an inherited pipe to a named one, without a moment in which nobody holds the writing end: we do (3) until the test
        # process says that it does. Were it killed in between, the old pipe ends and so do we.
        mkfifo "$folder/fifo" && exec 3<>"$folder/fifo" 4<"$folder/fifo"
        echo $?
        ;;
    share)
        exec 0<&4 3>&- 4<&-
        echo ok
        ;;
    join)
        # Whoever sees this file holds the writing end of a pipe that we still read.
        : >"$folder/joined.$argument"
        ;;
    esac
done

# `immediate`; the postmaster waits for its children and removes its shared memory. CONT: it may be paused.
postmaster_runs && kill -QUIT "$pid" 2>/dev/null
round=0
while
    all=$(members)
    postmaster_runs && all="$all $pid"
    [ -n "$all" ]
do
    if [ "$round" -ge 150 ]; then kill -KILL $all 2>/dev/null; else kill -CONT $all 2>/dev/null; fi
    round=$((round + 1))
    sleep 0.02
done
# A postmaster killed by KILL leaves its System V segment, which the seventh line of its lock file names.
if [ -f "$data/postmaster.pid" ]; then
    set -- $(sed -n 7p "$data/postmaster.pid")
    [ -n "$2" ] && ipcrm -m "$2" 2>/dev/null
fi
cd /
rm -rf "$folder"
