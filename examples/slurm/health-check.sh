#!/bin/sh
# slurm.conf:  HealthCheckProgram=/etc/slurm/health-check.sh   HealthCheckInterval=300   HealthCheckNodeState=CYCLE,ANY
# Slurm looks at neither output nor exit code, so the node that fails is drained here, with the reason.
# In /etc/slurm/sightline.env:  SIGHTLINE_EXPECT=gpus=8,ib=400
# shellcheck source=/dev/null
[ ! -r "${SIGHTLINE_ENV:-/etc/slurm/sightline.env}" ] || . "${SIGHTLINE_ENV:-/etc/slurm/sightline.env}"
why=$(sightline health --nhc ${SIGHTLINE_EXPECT:+--expect "$SIGHTLINE_EXPECT"}) && exit 0
# Exit code 1: a check failed. Another one: sightline could not look, which drains nothing.
[ $? -eq 1 ] || exit 0
scontrol update "NodeName=${SLURMD_NODENAME:-$(hostname -s)}" State=DRAIN "Reason=$(printf '%s' "$why" | head -n 1 | cut -c 1-200)"
