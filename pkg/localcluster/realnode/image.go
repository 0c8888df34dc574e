package realnode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
)

// Image is a container image to write as an archive.
type Image struct {
	// Name is the image's reference, with registry and tag.
	Name string
	// Layers are uncompressed tar files, the lowest first.
	Layers []string
	// Env are variables of each container, as NAME=VALUE.
	Env []string
	// Entrypoint is what containers run that name no command.
	Entrypoint []string
}

// Write writes the image as an archive in the format of `docker save`, which needs no container engine.
func (i Image) Write(archive string) (err error) {
	out, err := os.Create(archive)
	if err != nil {
		return fmt.Errorf("writing image %s: %w", i.Name, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	writer := tar.NewWriter(out)
	var digests, names []string
	for n, layer := range i.Layers {
		name := fmt.Sprintf("layer-%d.tar", n)
		digest, err := addFile(writer, name, layer)
		if err != nil {
			return err
		}
		digests, names = append(digests, digest), append(names, name)
	}
	for name, content := range map[string]any{
		"config.json": map[string]any{
			"architecture": runtime.GOARCH,
			"os":           "linux",
			"config":       map[string]any{"Entrypoint": i.Entrypoint, "Env": i.Env},
			"rootfs":       map[string]any{"type": "layers", "diff_ids": digests},
		},
		"manifest.json": []map[string]any{{"Config": "config.json", "RepoTags": []string{i.Name}, "Layers": names}},
	} {
		data, err := json.Marshal(content)
		if err != nil {
			return fmt.Errorf("describing image %s: %w", i.Name, err)
		}
		if err := add(writer, name, 0o644, int64(len(data)), bytes.NewReader(data)); err != nil {
			return err
		}
	}
	if err := writer.Close(); err != nil {
		return fmt.Errorf("writing image %s: %w", i.Name, err)
	}
	return nil
}

// WriteLayer writes a layer with one program in its root folder.
func WriteLayer(layer, program, name string) (err error) {
	out, err := os.Create(layer)
	if err != nil {
		return fmt.Errorf("writing a layer: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	in, err := os.Open(program)
	if err != nil {
		return fmt.Errorf("reading the program of a layer: %w", err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("reading the program of a layer: %w", err)
	}
	writer := tar.NewWriter(out)
	if err := add(writer, name, 0o755, info.Size(), in); err != nil {
		return err
	}
	if err := writer.Close(); err != nil {
		return fmt.Errorf("writing a layer: %w", err)
	}
	return nil
}

// addFile adds a file to an archive and returns its digest.
func addFile(writer *tar.Writer, name, path string) (digest string, err error) {
	in, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading a layer: %w", err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return "", fmt.Errorf("reading a layer: %w", err)
	}
	hash := sha256.New()
	if err := add(writer, name, 0o644, info.Size(), io.TeeReader(in, hash)); err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", hash.Sum(nil)), nil
}

func add(writer *tar.Writer, name string, mode, size int64, content io.Reader) error {
	if err := writer.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: size}); err != nil {
		return fmt.Errorf("packing %s: %w", name, err)
	}
	if _, err := io.Copy(writer, content); err != nil {
		return fmt.Errorf("packing %s: %w", name, err)
	}
	return nil
}
