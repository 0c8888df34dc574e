// Package localcluster runs a whole Kubernetes control plane, simulated nodes and Muster's two programs on this machine. They are child
// processes, and no container engine is needed.
//
// A cluster is data. Each part is a [Component] made by one small file, and [startGroups] orders
// them by what they need. Everything a cluster has on disk lies in one folder:
//
//	DIR/kubeconfig      for kubectl and clients, as cluster administrator
//	DIR/logs/NAME.log   one for each component
//	DIR/state.json      what runs, and what has ended and how
//	DIR/internal/       keys, etcd's data, generated configuration
//	DIR/lock            held (flock) as long as the cluster's supervisor lives
//
// All parts listen on free ports of the loopback interface. So clusters in different folders run side by side, for root and for ordinary
// users.
//
// The parent of all components is a supervisor. With [Up] it lives in the calling process, as
// tests want it. However that process ends, its components end with it. With [UpDetached] it is
// a process of its own that outlives the caller, as `muster local up` wants it. A component that
// ends unasked is recorded and reported by [Cluster.Status]. It is not started again, because a
// crash is something to look at.
package localcluster
