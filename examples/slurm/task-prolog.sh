#!/bin/sh
# A task prolog of Slurm (slurm.conf: TaskProlog=/etc/slurm/task-prolog.sh): what it prints as
# "export NAME=VALUE" is in the environment of each task. The job's user gets a daemon on each node,
# which ends with the job, as Slurm ends all processes of a job.
echo "export KINETO_USE_DAEMON=1"
if [ "${SLURM_LOCALID:-0}" = 0 ]; then
    nohup sightline daemon >/dev/null 2>&1 &
fi
