package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// programsFolder is where the programs are in the image; manifests/deploy names it.
	programsFolder = "/usr/local/bin"
	// certificatesPath is where Go's crypto/x509 looks for the certificates of CAs.
	certificatesPath = "/etc/ssl/certs/ca-certificates.crt"
	// sbomPath is where the list of the modules is.
	sbomPath = "/usr/local/share/muster/sbom.spdx.json"
	// user is any user but root, and its group.
	user = "65532:65532"
	// searchPath is what engines set for an image that is made from scratch.
	searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// release says which version of Muster an image holds.
type release struct {
	version, commit string
	// created is the time of the commit. The time of the build would make each image another one.
	created time.Time
}

// file is a file of the image.
type file struct {
	content []byte
	mode    int64
}

// buildImage returns an image of the files, by path, for a platform. The same arguments give the same digest.
func buildImage(files map[string]file, platform v1.Platform, from release) (v1.Image, error) {
	layers := make([]mutate.Addendum, 0, len(files))
	// One layer for each file: the certificates need not be pulled again with each version of the programs.
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := archive(name, files[name], from.created)
		if err != nil {
			return nil, err
		}
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
		layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, fmt.Errorf("compressing the layer of %s: %w", name, err)
		}
		layers = append(layers, mutate.Addendum{
			Layer:   layer,
			History: v1.History{Created: v1.Time{Time: from.created}, CreatedBy: "hack/image " + name},
		})
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, layers...)
	if err != nil {
		return nil, fmt.Errorf("adding the layers: %w", err)
	}
	configuration, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the image's configuration: %w", err)
	}
	configuration = configuration.DeepCopy()
	configuration.OS, configuration.Architecture, configuration.Variant = platform.OS, platform.Architecture, platform.Variant
	configuration.Created = v1.Time{Time: from.created}
	configuration.Config = v1.Config{User: user, Env: []string{searchPath}, Labels: labels(from)}
	image, err = mutate.ConfigFile(image, configuration)
	if err != nil {
		return nil, fmt.Errorf("writing the image's configuration: %w", err)
	}
	return image, nil
}

// labels are the annotations that the OCI image specification defines.
func labels(from release) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "Muster",
		"org.opencontainers.image.description": "Gang scheduling and batch Jobs: muster-scheduler and muster-controller",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/muster-sched/muster",
		"org.opencontainers.image.version":     from.version,
		"org.opencontainers.image.revision":    from.commit,
		"org.opencontainers.image.created":     from.created.UTC().Format(time.RFC3339),
	}
}

// archive returns a tar archive of one file and the folders above it, all of root.
func archive(name string, f file, modified time.Time) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	header := func(h tar.Header) error {
		h.ModTime, h.Format = modified, tar.FormatPAX
		return writer.WriteHeader(&h)
	}
	for _, folder := range foldersAbove(name) {
		if err := header(tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755}); err != nil {
			return nil, fmt.Errorf("archiving the folder %s: %w", folder, err)
		}
	}
	relative := strings.TrimPrefix(name, "/")
	if err := header(tar.Header{Typeflag: tar.TypeReg, Name: relative, Mode: f.mode, Size: int64(len(f.content))}); err != nil {
		return nil, fmt.Errorf("archiving %s: %w", name, err)
	}
	if _, err := writer.Write(f.content); err != nil {
		return nil, fmt.Errorf("archiving %s: %w", name, err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("archiving %s: %w", name, err)
	}
	return buffer.Bytes(), nil
}

// foldersAbove returns the folders that an absolute path is in, the topmost first, without the leading slash.
func foldersAbove(name string) []string {
	var folders []string
	for folder := path.Dir(name); folder != "/"; folder = path.Dir(folder) {
		folders = append(folders, strings.TrimPrefix(folder, "/"))
	}
	slices.Reverse(folders)
	return folders
}
