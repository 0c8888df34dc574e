package lint

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlnodes "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Object is one object of a file.
type Object struct {
	// File is the name of the file.
	File string
	// Content is what kubectl would send.
	Content *unstructured.Unstructured

	node     *yamlnodes.Node // where its fields stand in the document
	lineBase int             // lines of the file before the document
}

// Read returns the objects of a file, which has YAML documents or JSON values. Lists give their items. Its errors name the file and the
// line.
func Read(file string, text []byte) ([]Object, error) {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	documents, err := split(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var objects []Object
	for position := 0; len(documents) > 0; documents = documents[1:] {
		start := position + bytes.Index(text[position:], documents[0])
		position = start + len(documents[0])
		found, err := parse(file, documents[0], bytes.Count(text[:start], []byte("\n")))
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// split returns the documents of a file, each as it stands there. As kubectl, it takes for YAML what is no JSON.
func split(text []byte) ([][]byte, error) {
	if documents, err := splitJSON(text); err == nil {
		return documents, nil
	}
	var documents [][]byte
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("finding the YAML documents: %w", err)
		}
		documents = append(documents, bytes.TrimRight(document, "\n"))
	}
}

func splitJSON(text []byte) ([][]byte, error) {
	var documents [][]byte
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading JSON: %w", err)
		}
		documents = append(documents, document)
	}
}

// parse reads one document, which begins after some lines of the file.
func parse(file string, document []byte, lines int) ([]Object, error) {
	data := document
	if json.Valid(document) {
		document = bytes.ReplaceAll(document, []byte("\t"), []byte(" ")) // YAML takes no tabs
	} else {
		var err error
		if data, err = yaml.YAMLToJSON(document); err != nil {
			return nil, fmt.Errorf("%s: the document from line %d on is no YAML: %w%s", file, lines+1, err, hintOfYAML(document))
		}
	}
	var value any
	if err := utiljson.Unmarshal(data, &value); err != nil {
		return nil, fmt.Errorf("%s: the document from line %d on: %w", file, lines+1, err)
	}
	if value == nil {
		return nil, nil // only comments
	}
	content, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: the document from line %d on is no object: it needs apiVersion and kind", file, lines+1)
	}
	node := &yamlnodes.Node{}
	if err := yamlnodes.Unmarshal(document, node); err != nil || len(node.Content) == 0 {
		node = &yamlnodes.Node{Content: []*yamlnodes.Node{{Line: 1}}} // the reader above takes more; all stands in the first line then
	}
	return expand(Object{file, &unstructured.Unstructured{Object: content}, node.Content[0], lines})
}

// expand returns an object, or the items of a list.
func expand(object Object) ([]Object, error) {
	content := object.Content.Object
	for _, field := range []string{"apiVersion", "kind"} {
		if text, isText := content[field].(string); !isText || text == "" {
			return nil, fmt.Errorf("%s:%d: an object needs %s: name it", object.File, object.Line(field), field)
		}
	}
	items, ok := content["items"].([]any)
	if !ok || !strings.HasSuffix(object.Content.GetKind(), "List") {
		return []Object{object}, nil
	}
	var objects []Object
	for i, item := range items {
		content, ok := item.(map[string]any)
		where, _ := object.find("items[" + strconv.Itoa(i) + "]")
		if !ok {
			return nil, fmt.Errorf("%s:%d: an item of the list is no object", object.File, object.lineBase+where.Line)
		}
		found, err := expand(Object{object.File, &unstructured.Unstructured{Object: content}, where, object.lineBase})
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// Line returns the line of a field, or of what it would be part of. The empty field is the object.
func (o Object) Line(field string) int {
	node, line := o.find(field)
	if line == 0 {
		line = node.Line
	}
	return o.lineBase + line
}

// step is a part of a path: a name, or what stands in brackets.
var step = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// find follows the path of a field to its last existing part. It returns the last node, and the line of its name.
func (o Object) find(field string) (node *yamlnodes.Node, line int) {
	node = o.node
	for steps := step.FindAllString(field, -1); len(steps) > 0; {
		next, nextLine, used := enter(node, steps)
		if next == nil {
			break
		}
		node, line, steps = next, nextLine, steps[used:]
	}
	return node, line
}

// enter goes from a node to a part of it. A key may have dots, so that it is as many steps as needed.
func enter(node *yamlnodes.Node, steps []string) (next *yamlnodes.Node, line, used int) {
	for node.Kind == yamlnodes.AliasNode {
		node = node.Alias
	}
	inner := strings.Trim(steps[0], "[]")
	if node.Kind == yamlnodes.SequenceNode {
		if i, err := strconv.Atoi(inner); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line, 1
		}
		return nil, 0, 0
	}
	for n := len(steps); n > 0 && node.Kind == yamlnodes.MappingNode; n-- {
		key := inner
		if n > 1 {
			key = strings.Join(steps[:n], ".")
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				return node.Content[i+1], node.Content[i].Line, n
			}
		}
	}
	return nil, 0, 0
}

// duplicates are the fields that stand in the object twice: the first of them would be lost.
func (o Object) duplicates() []problem {
	var found []problem
	var look func(node *yamlnodes.Node, path string)
	look = func(node *yamlnodes.Node, path string) {
		seen := map[string]bool{}
		for i, part := range node.Content {
			switch {
			case node.Kind == yamlnodes.SequenceNode:
				look(part, fmt.Sprintf("%s[%d]", path, i))
			case node.Kind == yamlnodes.MappingNode && i%2 == 0:
				if field := strings.TrimPrefix(path+"."+part.Value, "."); seen[part.Value] && part.Value != "<<" {
					found = append(found, problem{schemaRule, field, fmt.Sprintf("duplicate field %q: remove one", field), part.Line})
				}
				seen[part.Value] = true
			case node.Kind == yamlnodes.MappingNode:
				look(part, strings.TrimPrefix(path+"."+node.Content[i-1].Value, "."))
			}
		}
	}
	look(o.node, "")
	return found
}

// findings says where the problems of an object stand, in the order of the lines.
func (o Object) findings(problems []problem) []Finding {
	var findings []Finding
	for _, p := range problems {
		line := o.Line(p.field)
		if p.line > 0 {
			line = o.lineBase + p.line
		}
		findings = append(findings, Finding{
			File: o.File, Line: line, Kind: o.Content.GetKind(), Namespace: text(o.Content, "namespace"), Name: text(o.Content, "name"),
			Field: p.field, Rule: p.rule, Message: p.message,
		})
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	return findings
}

// text returns a text of an object's metadata, whatever these look like.
func text(object *unstructured.Unstructured, field string) string {
	found, _, _ := unstructured.NestedString(object.Object, "metadata", field)
	return found
}

// readFolder returns the objects of all files of a folder.
func readFolder(files fs.FS, folder string) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, path.Join(folder, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", folder, err)
	}
	var all []*unstructured.Unstructured
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		objects, err := Read(name, text)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			all = append(all, object.Content)
		}
	}
	return all, nil
}
