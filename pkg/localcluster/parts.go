package localcluster

// makers describe the components of a cluster with a given layout.
var makers = map[string]func(l *layout) Component{
	Etcd:                  etcdComponent,
	KubeAPIServer:         kubeAPIServerComponent,
	KubeControllerManager: kubeControllerManagerComponent,
	KWOK:                  kwokComponent,
	KubeScheduler:         kubeSchedulerComponent,
	MusterScheduler:       musterSchedulerComponent,
	MusterController:      musterControllerComponent,
	RealNode:              realNodeComponent,
}

// componentsOf lists the components that the options ask for.
func componentsOf(l *layout) []Component {
	var components []Component
	for _, entry := range catalogue {
		if !l.options.has(entry.name) {
			continue
		}
		component := makers[entry.name](l)
		component.Args = append(component.Args, l.options.ExtraArgs[entry.name]...)
		components = append(components, component)
	}
	return components
}
