package localcluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/manifests"
)

const (
	stagesFile = "stages.yaml"

	replacingSchedulerConfig = "scheduler/replace-default.yaml"
	secondSchedulerConfig    = "scheduler/second-scheduler.yaml"
)

// stockSchedulerConfig is the stock scheduler as it comes, but for the client limits. With its
// own it binds at most 50 pods per second.
const stockSchedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: 5000
  burst: 10000
leaderElection:
  leaderElect: false
`

// manifestFiles lists the YAML files of one folder of manifests, in order.
func manifestFiles(folder string) ([]string, error) {
	files, err := fs.Glob(manifests.FS, path.Join(folder, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing manifests/%s: %w", folder, err)
	}
	return files, nil
}

// readObjects decodes all objects of one folder of manifests, in order.
func readObjects(folder string) ([]*unstructured.Unstructured, error) {
	files, err := manifestFiles(folder)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		data, err := manifests.FS.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading manifests/%s: %w", file, err)
		}
		decoded, err := decodeObjects(data)
		if err != nil {
			return nil, fmt.Errorf("decoding manifests/%s: %w", file, err)
		}
		objects = append(objects, decoded...)
	}
	return objects, nil
}

// decodeObjects decodes a stream of YAML documents; empty ones are passed over.
func decodeObjects(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// writeStages writes all stages into the one file that kwok reads.
func (l *layout) writeStages() error {
	if !l.options.has(KWOK) {
		return nil
	}
	files, err := manifestFiles("stages")
	if err != nil {
		return err
	}
	var all bytes.Buffer
	for _, file := range files {
		data, err := manifests.FS.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading manifests/%s: %w", file, err)
		}
		all.WriteString("---\n")
		all.Write(data)
	}
	return l.writeFile(stagesFile, all.Bytes())
}

// schedulerConfigFile is where the configuration of a scheduler is in the cluster's inner folder.
func schedulerConfigFile(name string) string { return name + ".yaml" }

// writeSchedulerConfigs writes the configuration of each scheduler that there is.
func (l *layout) writeSchedulerConfigs() error {
	for _, name := range []string{KubeScheduler, MusterScheduler} {
		if !l.options.has(name) {
			continue
		}
		source, err := l.schedulerConfig(name)
		if err != nil {
			return err
		}
		data, err := withKubeconfig(source, l.identityKubeconfig(name))
		if err != nil {
			return err
		}
		if err := l.writeFile(schedulerConfigFile(name), data); err != nil {
			return err
		}
	}
	return nil
}

// schedulerConfig is the configuration of a scheduler, without its kubeconfig.
func (l *layout) schedulerConfig(name string) ([]byte, error) {
	if name == l.options.Scheduler && l.options.SchedulerConfig != "" {
		return []byte(l.options.SchedulerConfig), nil
	}
	if name == KubeScheduler {
		return []byte(stockSchedulerConfig), nil
	}
	file := replacingSchedulerConfig
	if l.options.has(KubeScheduler) {
		file = secondSchedulerConfig
	}
	source, err := manifests.FS.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading manifests/%s: %w", file, err)
	}
	return source, nil
}

// withKubeconfig sets clientConnection.kubeconfig of a KubeSchedulerConfiguration and leaves the
// rest as it is.
func withKubeconfig(source []byte, kubeconfig string) ([]byte, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal(source, &config); err != nil {
		return nil, fmt.Errorf("reading the scheduler's configuration: %w", err)
	}
	if err := unstructured.SetNestedField(config, kubeconfig, "clientConnection", "kubeconfig"); err != nil {
		return nil, fmt.Errorf("changing the scheduler's configuration: %w", err)
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("writing the scheduler's configuration: %w", err)
	}
	return data, nil
}
