#!/bin/sh
# slurm.conf:  PrologSlurmctld=/etc/slurm/slurmctld-tell.sh   EpilogSlurmctld=/etc/slurm/slurmctld-tell.sh
# Tells the cluster's service that a job began, or ended. A service that is away holds up no job.
# In /etc/slurm/sightline.env:  SIGHTLINE_URL=https://jobs.example.org  SIGHTLINE_PUSH_TOKEN=...
# shellcheck source=/dev/null
. "${SIGHTLINE_ENV:-/etc/slurm/sightline.env}"
now=$(date +%s)
# What a user may choose (the job's name) is left out: this is JSON.
post() {
    printf '%s' "$2" | curl --silent --show-error --max-time 10 --output /dev/null \
        -H "Authorization: Bearer $SIGHTLINE_PUSH_TOKEN" --data-binary @- "$SIGHTLINE_URL$1" || true
}
if [ "$SLURM_SCRIPT_CONTEXT" = "prolog_slurmctld" ]; then
    count=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | wc -l)
    about=$(scontrol show --details job "$SLURM_JOB_ID")
    # "Nodes=n[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:a100:3(IDX:0-1,3)": which GPUs of which node are its own.
    nodes=$(echo "$about" | sed -n 's/^ *Nodes=\([^ ]*\) .*GRES[_IDX]*=\(.*\)$/\1 \2/p' |
        while read -r list gres; do
            own=$(echo "$gres" | sed -n 's/.*gpu[^(]*([^)]*IDX:\([0-9,-]*\)).*/\1/p' | tr , '\n' |
                while IFS=- read -r first last; do
                    [ -n "$first" ] && seq "$first" "${last:-$first}"
                done | sed 's/.*/"&"/' | paste -sd,)
            scontrol show hostnames "$list" |
                sed "s/.*/{\"hostname\":\"&\",\"accelerators\":[$own]}/"
        done | paste -sd,)
    [ -n "$nodes" ] || nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST" |
        sed 's/.*/{"hostname":"&"}/' | paste -sd,)
    cpus=$(echo "$about" | sed -n 's/.*NumCPUs=\([0-9]*\).*/\1/p' | head -1)
    gpus=$(echo "$about" | sed -n 's/.*AllocTRES=.*gres\/gpu=\([0-9]*\).*/\1/p' | head -1)
    post /api/jobs/start_job/ "{\"jobId\":$SLURM_JOB_ID,\"cluster\":\"$SLURM_CLUSTER_NAME\",
        \"user\":\"$SLURM_JOB_USER\",\"project\":\"${SLURM_JOB_ACCOUNT:-none}\",
        \"partition\":\"$SLURM_JOB_PARTITION\",\"numNodes\":$count,\"numHwthreads\":${cpus:-0},
        \"numAcc\":${gpus:-0},\"startTime\":$now,\"resources\":[$nodes]}"
else
    state=completed
    [ "${SLURM_JOB_EXIT_CODE2:-0:0}" = "0:0" ] || state=failed
    post /api/jobs/stop_job/ "{\"jobId\":$SLURM_JOB_ID,\"cluster\":\"$SLURM_CLUSTER_NAME\",
        \"stopTime\":$now,\"jobState\":\"$state\"}"
fi
exit 0
