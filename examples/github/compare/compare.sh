#!/usr/bin/env bash
# Compares BEFORE and AFTER (paths, a line each), appends the answer to the job's summary and, with GH_TOKEN
# and PULL_REQUEST, writes it as the one comment of this action, which later runs replace. FAIL_ON: when to
# end with 1. Nothing of a recording is run, and what it says is text: names of kernels are escaped.
# shellcheck disable=SC2153 # BEFORE and AFTER are what the action is given
set -euo pipefail
mark="<!-- sightline compare -->"
report=$(mktemp -d)/compare.md
mapfile -t before < <(printf '%s\n' "$BEFORE" | sed '/^[[:space:]]*$/d')
mapfile -t after < <(printf '%s\n' "$AFTER" | sed '/^[[:space:]]*$/d')
words=(--before "${before[@]}" --after "${after[@]}" -o "$report")
if [ -n "${FAIL_ON:-}" ]; then words+=(--fail-on "$FAIL_ON"); fi
status=0
sightline compare "${words[@]}" || status=$?
# 1: the gate; anything above is no answer.
if [ "$status" -gt 1 ]; then exit "$status"; fi
body=$(dirname "$report")/body.md
{
    echo "$mark"
    echo "### sightline: before and after"
    echo
    head -c 60000 "$report" # a comment holds 65,536 characters
} >"$body"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then cat "$body" >>"$GITHUB_STEP_SUMMARY"; fi
if [ -n "${GH_TOKEN:-}" ] && [ -n "${PULL_REQUEST:-}" ]; then
    comments="repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments"
    own=$(gh api --paginate "$comments" \
        --jq ".[] | select(.user.type == \"Bot\" and (.body | startswith(\"$mark\"))) | .id" | head -n 1)
    if [ -n "$own" ]; then
        gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$own" -F "body=@$body"
    else
        gh api --silent --method POST "$comments" -F "body=@$body"
    fi
fi
exit "$status"
