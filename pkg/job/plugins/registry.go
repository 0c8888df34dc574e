package plugins

import (
	"github.com/muster-sched/muster/pkg/job/plugins/env"
	"github.com/muster-sched/muster/pkg/job/plugins/hcclrank"
	"github.com/muster-sched/muster/pkg/job/plugins/mpi"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
	"github.com/muster-sched/muster/pkg/job/plugins/pytorch"
	"github.com/muster-sched/muster/pkg/job/plugins/ray"
	"github.com/muster-sched/muster/pkg/job/plugins/ssh"
	"github.com/muster-sched/muster/pkg/job/plugins/svc"
	"github.com/muster-sched/muster/pkg/job/plugins/tensorflow"
)

// entry is a plugin that Jobs can ask for.
type entry struct {
	name string
	make plugin.Factory
}

// registry lists all plugins in the order in which they work on a pod. The order is part of what users see. If two variables have one name,
// the one of the later plugin counts. A new plugin takes one line.
var registry = []entry{
	{env.Name, env.New},
	{svc.Name, svc.New},
	{ssh.Name, ssh.New},
	{tensorflow.Name, tensorflow.New},
	{pytorch.Name, pytorch.New},
	{mpi.Name, mpi.New}, // its MPI_HOST may refer to the ConfigMap of svc
	{ray.Name, ray.New},
	{hcclrank.Name, hcclrank.New}, // reads the RANK that pytorch sets
}
