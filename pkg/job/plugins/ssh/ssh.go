// Package ssh is the plugin that lets the pods of a Job log in to each other without a password. All share one key.
package ssh

import (
	"errors"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// Name of the plugin.
const Name = "ssh"

const (
	// defaultPath is the home of root's ssh files.
	defaultPath = "/root/.ssh"
	defaultPort = 22
)

// Keys of the Secret, and names of the files.
const (
	privateKey     = "id_rsa"
	publicKey      = "id_rsa.pub"
	authorizedKeys = "authorized_keys"
	configFile     = "config"
)

type sshPlugin struct {
	job      *batchv1alpha1.Job
	path     string
	given    map[string][]byte // the keys in the arguments, or nil
	isRSA    bool              // the type of a new key is RSA
	port     int
	eachHost bool // the configuration has an entry for each host
}

var _ plugin.ObjectMaker = &sshPlugin{}

// New makes the plugin.
func New(r *plugin.Request) plugin.Plugin {
	where := r.Flags().String("ssh-key-file-path", defaultPath, "the folder in the containers for the ssh files")
	kind := typeEd25519
	r.Flags().Func("ssh-key-type", "the type of a new key, "+typeEd25519+" or "+typeRSA, func(text string) error {
		kind = text
		if kind != typeEd25519 && kind != typeRSA {
			return errors.New("must be " + typeEd25519 + " or " + typeRSA)
		}
		return nil
	})
	private := r.Flags().String("ssh-private-key", "", "the private key in PEM form, instead of a new one")
	public := r.Flags().String("ssh-public-key", "", "the public key that belongs to it, in the form of authorized_keys")
	port := r.Flags().Int("ssh-port", defaultPort, "the port of sshd")
	r.Parse()

	if !path.IsAbs(*where) || strings.Contains(*where, ":") {
		r.Refuse("--ssh-key-file-path=%s must be an absolute path without colons", *where)
	}
	r.ReserveMount(volumeName(r.Job), *where)
	given := givenKeys(r, *private, *public)
	s := &sshPlugin{job: r.Job, path: *where, given: given, isRSA: kind == typeRSA, port: validPort(r, *port)}
	s.eachHost = checkConfig(r, s.port, given)
	return s
}

// validPort returns the port, or the default one in its place if there is no such port. Manifests rely on that.
func validPort(r *plugin.Request, port int) int {
	if port >= 1 && port < 1<<16 {
		return port
	}
	r.Note(plugin.ReasonArgumentIgnored, "--ssh-port=%d of plugin ssh is ignored: %d is used, as ports are 1 to 65535", port, defaultPort)
	return defaultPort
}

// givenKeys returns the keys in the arguments, or nil if there are none.
func givenKeys(r *plugin.Request, private, public string) map[string][]byte {
	if private == "" {
		if public != "" {
			r.Note(plugin.ReasonArgumentIgnored, "--ssh-public-key of plugin ssh is ignored: there is no --ssh-private-key that belongs to it")
		}
		return nil
	}
	if public == "" {
		known, err := publicOf(private)
		if err != nil {
			r.Refuse("--ssh-public-key must be given with --ssh-private-key: it cannot be worked out, %v", err)
		}
		public = known
	}
	return keyData(private, public)
}

func keyData(private, public string) map[string][]byte {
	return map[string][]byte{privateKey: []byte(private), publicKey: []byte(public), authorizedKeys: []byte(public)}
}

// newKey makes a key of the type that is asked for. An RSA key is left to the caller.
func (s *sshPlugin) newKey() (map[string][]byte, error) {
	if s.isRSA {
		return nil, &plugin.SlowSecret{Name: secretName(s.job), Make: newRSA}
	}
	return newEd25519()
}

// Objects returns the Secret. Its key is made once; its list of hosts follows the Job.
func (s *sshPlugin) Objects(secrets plugin.Secrets) ([]plugin.Object, error) {
	keys := s.given
	if keys == nil {
		kept, err := secrets(secretName(s.job), []string{privateKey, publicKey}, s.newKey)
		if err != nil {
			return nil, err
		}
		keys = keyData(string(kept[privateKey]), string(kept[publicKey]))
	}
	config := patternConfig
	if s.eachHost {
		config = hostConfig
	}
	data := map[string][]byte{configFile: config(s.job, s.port)}
	for name, content := range keys {
		data[name] = content
	}
	return []plugin.Object{&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName(s.job)},
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	}}, nil
}

// MutatePod mounts the files into all containers and init containers.
func (s *sshPlugin) MutatePod(pod *corev1.Pod, _ *batchv1alpha1.TaskSpec, _ int32) {
	// Other users than root must be able to read files that root owns.
	mode := int32(0o600)
	if s.path != defaultPath {
		mode = 0o644
	}
	// Each file is mounted by its own subPath, as a plain file. The program sshd does not trust links in a folder that every user may write
	// to. The folder is not mounted by a subPath. When the Secret changes, the kubelet deletes its old files, and running pods have none.
	var items []corev1.KeyToPath
	var mounts []corev1.VolumeMount
	for _, name := range []string{privateKey, publicKey, authorizedKeys, configFile} {
		items = append(items, corev1.KeyToPath{Key: name, Path: name})
		mounts = append(mounts, corev1.VolumeMount{Name: volumeName(s.job), MountPath: path.Join(s.path, name), SubPath: name})
	}
	plugin.MountEverywhere(&pod.Spec,
		corev1.Volume{
			Name: volumeName(s.job),
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName:  secretName(s.job),
				Items:       items,
				DefaultMode: ptr.To(mode),
			}},
		},
		mounts...)
}

func secretName(job *batchv1alpha1.Job) string { return job.Name + "-ssh" }

// volumeName is the Secret's name, without the dots that a Job's name may have and a volume's may not.
func volumeName(job *batchv1alpha1.Job) string { return strings.ReplaceAll(secretName(job), ".", "-") }
