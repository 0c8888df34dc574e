# shellcheck shell=bash
# What every script here sets before it calls Go; to be sourced. One set of flags for all, so that the control plane,
# the programs and the tests share the build cache.
export GOFLAGS="-trimpath -buildvcs=false"
export GOWORK=off
