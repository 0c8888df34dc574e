package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/krew/pkg/constants"
	"sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/yaml"
)

const (
	// pluginName is what users type after kubectl.
	pluginName = "muster"
	// binName is the program in an archive. Called like that it answers as a kubectl plugin.
	binName = "kubectl-muster"
)

// isVersion matches versions as krew compares them: semantic, with a v in front.
var isVersion = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// release is what is packed, and where it will be published.
type release struct {
	version, url, programs, license, out string
}

// write writes the archives of all platforms and the manifest.
func (r *release) write() error {
	if !isVersion.MatchString(r.version) {
		return fmt.Errorf("version %q: write one like v1.2.0", r.version)
	}
	where, err := url.Parse(strings.ReplaceAll(r.url, "{version}", r.version))
	if err != nil || where.Scheme != "https" || where.Host == "" {
		return fmt.Errorf("URL %q: write one like https://example.com/releases/{version}", r.url)
	}
	platforms, err := filepath.Glob(filepath.Join(r.programs, "*-*", "muster"))
	if err != nil {
		return err
	}
	if len(platforms) == 0 {
		return fmt.Errorf("there is no program <os>-<arch>/muster in %s", r.programs)
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	plugin := r.plugin()
	for _, program := range platforms {
		name := filepath.Base(filepath.Dir(program))
		archive := fmt.Sprintf("%s-%s.tar.gz", binName, name)
		sum, err := r.pack(program, filepath.Join(r.out, archive))
		if err != nil {
			return fmt.Errorf("packing %s: %w", archive, err)
		}
		system, processor, _ := strings.Cut(name, "-")
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, index.Platform{
			URI: where.JoinPath(archive).String(), Sha256: sum, Bin: binName,
			Files:    []index.FileOperation{{From: binName, To: "."}, {From: "LICENSE", To: "."}},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"os": system, "arch": processor}},
		})
	}
	text, err := yaml.Marshal(plugin)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, pluginName+constants.ManifestExtension), text, 0o600)
}

// plugin is the manifest without its platforms.
func (r *release) plugin() *index.Plugin {
	return &index.Plugin{
		TypeMeta:   metav1.TypeMeta{APIVersion: constants.CurrentAPIVersion, Kind: constants.PluginKind},
		ObjectMeta: metav1.ObjectMeta{Name: pluginName},
		Spec: index.PluginSpec{
			Version: r.version, Homepage: "https://github.com/muster-sched/muster",
			ShortDescription: "Run batch Jobs, and learn why they wait",
			Description: "Muster runs batch Jobs of the Volcano API on the upstream kube-scheduler: all pods\n" +
				"that a Job needs start together. This plugin lists, runs and stops Jobs and queues.\n" +
				"\"kubectl muster explain\" says on one page why a Job waits, who is before it and what\n" +
				"would free it.\n",
		},
	}
}

// pack writes an archive with a program and the license, and returns its SHA-256 sum in hexadecimal. The same files make the same archive.
func (r *release) pack(program, archive string) (sum string, err error) {
	file, err := os.Create(archive)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	hash := sha256.New()
	compressed := gzip.NewWriter(io.MultiWriter(file, hash))
	files := tar.NewWriter(compressed)
	if err := add(files, program, binName, 0o755); err != nil {
		return "", err
	}
	if err := add(files, r.license, "LICENSE", 0o644); err != nil {
		return "", err
	}
	if err := errors.Join(files.Close(), compressed.Close()); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}

// add adds a file to an archive under another name.
func add(files *tar.Writer, source, name string, mode int64) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	if err := files.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)), Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err = files.Write(content)
	return err
}
