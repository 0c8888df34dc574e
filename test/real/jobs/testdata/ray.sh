#!/bin/sh
# Stands in the place of Ray's command line: the head listens at --port, and all of the cluster meet at the addresses that they were given.
for argument; do
  case $argument in
    --port=*) head="$(cat /etc/volcano/head.host):${argument#*=}" ;;
    --address=*) head="${argument#*=}" ;;
  esac
done
# shellcheck disable=SC2046 # one address per word
exec checker "$head" $(sed 's/$/:7000/' /etc/volcano/worker.host)
