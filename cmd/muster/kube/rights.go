package kube

import (
	"fmt"
	"regexp"
	"slices"
)

// forbidden is what the API server says of a request that no role allows.
var forbidden = regexp.MustCompile(
	`\S+(?: "[^"]*")? is forbidden: User "([^"]*)" cannot (\S+) resource "([^"]*)" in API group "([^"]*)" (at the cluster scope|in the namespace "[^"]*")`)

// readersRole is the role that lets all users read what it names.
const readersRole = "muster-queue-readers"

// readable are the resources that the role lets them read.
var readable = []string{"queues.scheduling.volcano.sh", "priorityclasses.scheduling.k8s.io"}

// Say is an error as a person reads it. A missing right is named in one sentence, with the way to get it.
func Say(err error) string {
	return forbidden.ReplaceAllStringFunc(err.Error(), func(said string) string {
		found := forbidden.FindStringSubmatch(said)
		user, verb, resource, where := found[1], found[2], found[3], found[5]
		if found[4] != "" {
			resource += "." + found[4]
		}
		if where == "at the cluster scope" {
			where = "in the whole cluster"
		}
		remedy := "ask an administrator for that right"
		if slices.Contains(readable, resource) && slices.Contains([]string{"get", "list", "watch"}, verb) {
			remedy = "ask an administrator for the ClusterRole " + readersRole
		}
		return fmt.Sprintf("user %s may not %s %s %s: %s", user, verb, resource, where, remedy)
	})
}
