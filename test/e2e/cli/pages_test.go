package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// repository is the root of the repository.
const repository = "../../.."

// block is a block of code in a page.
type block struct {
	line     int    // of its beginning, from 1
	language string // behind the fence
	commands []string
	// notRun says why the commands are not run; "" if they are.
	notRun string
}

// data has the languages of blocks that hold no commands.
var data = sets.New("text", "yaml", "json", "go", "mermaid", "share", "start", "evict", "lowered")

// isOfCommands says whether a reader would run a block.
func (b block) isOfCommands() bool { return len(b.commands) > 0 || !data.Has(b.language) }

// isRunnable says whether the test knows what to run: the language is "console", and each command begins with "$ ".
func (b block) isRunnable() bool { return b.language == "console" && len(b.commands) > 0 }

var (
	fence = regexp.MustCompile("^\\s*(?:```|~~~)(.*)$")
	// mark stands above a block that is not run.
	mark = regexp.MustCompile(`^\s*<!-- not run: (.+) -->$`)
)

// blocksOf finds the blocks of code in a page. A line that begins with "$ " is a command. It goes on in the next lines if it ends with a
// backslash, or within quotes. All other lines are what it prints. A command outside a block is a block without a language.
func blocksOf(page string) []block {
	var blocks []block
	var current *block
	reason, goesOn := "", false
	for i, line := range strings.Split(page, "\n") {
		if match := fence.FindStringSubmatch(line); match != nil {
			if current != nil {
				current = nil
				continue
			}
			blocks = append(blocks, block{line: i + 1, language: strings.TrimSpace(match[1]), notRun: reason})
			current, reason, goesOn = &blocks[len(blocks)-1], "", false
			continue
		}
		command, begins := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		switch {
		case current != nil && begins:
			current.commands = append(current.commands, command)
			goesOn = isUnfinished(command)
		case current != nil && goesOn:
			last := &current.commands[len(current.commands)-1]
			*last += "\n" + line
			goesOn = isUnfinished(*last)
		case current == nil && begins:
			blocks = append(blocks, block{line: i + 1, commands: []string{command}})
		case current == nil && strings.TrimSpace(line) != "":
			reason = ""
			if match := mark.FindStringSubmatch(line); match != nil {
				reason = match[1]
			}
		}
	}
	return blocks
}

// isUnfinished says whether a command goes on in the next line.
func isUnfinished(command string) bool {
	return strings.HasSuffix(command, `\`) || strings.Count(command, "'")%2 == 1
}

func TestBlocksOfAPage(t *testing.T) {
	page := "text\n\n```console\n$ one   # says one\noutput\n$ two 'a\n  b' \\\n  c\noutput\n```\n\n<!-- not run: it is slow -->\n\n```console\n$ three\n```\n" +
		"<!-- not run: of another block -->\ntext\n1. x\n\n   ```console\n   $ four\n   ```\n\n```yaml\na: b\n```\n"
	assert.Equal(t, []block{
		{line: 3, language: "console", commands: []string{"one   # says one", "two 'a\n  b' \\\n  c"}},
		{line: 14, language: "console", commands: []string{"three"}, notRun: "it is slow"},
		{line: 21, language: "console", commands: []string{"four"}},
		{line: 25, language: "yaml"},
	}, blocksOf(page))
}

// TestABlockIsRunOrMarked: whatever a reader would type into a shell is found, however it is written.
func TestABlockIsRunOrMarked(t *testing.T) {
	for page, isMissed := range map[string]bool{
		"```console\n$ kubectl get pods\n```\n":                         false,
		"```text\noutput\n```\n":                                        false,
		"<!-- not run: why -->\n\n```bash\nkubectl get pods\n```\n":     false,
		"```bash\nkubectl get pods\n```\n":                              true,
		"```sh title=\"x\"\nkubectl get pods\n```\n":                    true,
		"~~~shell\nkubectl get pods\n~~~\n":                             true,
		"```\nkubectl get pods\n```\n":                                  true,
		"```console\nkubectl get pods\n```\n":                           true,
		"```text\n$ kubectl get pods\n```\n":                            true,
		"text\n\n    $ kubectl get pods\n":                              true,
		"<!-- not run: -->\n\n```bash\nkubectl get pods\n```\n":         true,
		"<!-- not run: why -->\ntext\n\n```bash\nkubectl get\n```\n":    true,
		"```console\n$ kubectl get\n```\n\n```bash\nkubectl get\n```\n": true,
	} {
		_, missed := chosen(page)
		assert.Equal(t, isMissed, len(missed) > 0, page)
	}
}

// chosen returns the blocks of a page that are run. missed has the lines of blocks that are neither run nor marked.
func chosen(page string) (run []block, missed []int) {
	for _, b := range blocksOf(page) {
		switch {
		case !b.isOfCommands() || b.notRun != "":
		case b.isRunnable():
			run = append(run, b)
		default:
			missed = append(missed, b.line)
		}
	}
	return run, missed
}

// TestTheCommandsOfThePages runs each block of commands in the documentation, page by page. Each command has to succeed. A comment
// "<!-- not run: ... -->" above a block takes it out, with a reason.
func TestTheCommandsOfThePages(t *testing.T) {
	t.Parallel()
	pages := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		require.NoError(t, err)
		for _, page := range found {
			name, err := filepath.Rel(repository, page)
			require.NoError(t, err)
			pages = append(pages, name)
		}
	}
	run := 0
	// One page after the other, as they share a queue.
	for _, page := range pages {
		if page == "docs/run-a-job.md" {
			continue // TestADataScientistRunsAJob runs it.
		}
		text, err := os.ReadFile(filepath.Join(repository, page))
		require.NoError(t, err)
		blocks, missed := chosen(string(text))
		assert.Empty(t, missed, "%s: these lines begin blocks that are neither run nor marked with <!-- not run: REASON -->", page)
		if len(blocks) == 0 {
			continue
		}
		run += len(blocks)
		t.Run(page, func(t *testing.T) {
			s := harness.New(t)
			asAdministrator := kubeconfigOf(s, func(*clientcmdapi.AuthInfo) {})
			shell := shellIn(s, pagesFolder(t, string(text)), asAdministrator)
			runs(t, shell, "kubectl apply -f "+absolute(t, "testdata"))
			s.JobPhase(s.Name("training"), batchv1alpha1.Running)
			runBlocks(t, page, blocks, shell)
		})
	}
	assert.Greater(t, run, 12)
}

// TestADataScientistRunsAJob does the steps of the tutorial with the rights that it asks for: to edit one namespace.
func TestADataScientistRunsAJob(t *testing.T) {
	t.Parallel()
	const page, user = "docs/run-a-job.md", "scientist"
	s := harness.New(t)
	content, err := os.ReadFile(filepath.Join(repository, page))
	require.NoError(t, err)
	steps := regexp.MustCompile(`(?m)^## \d+\. `).FindAllString(string(content), -1)
	require.Len(t, steps, 5)
	assert.Contains(t, string(content), "Its first five steps take")
	folder := pagesFolder(t, string(content))
	shell := shellIn(s, folder, kubeconfigOf(s, func(auth *clientcmdapi.AuthInfo) { auth.Impersonate = user }))
	runs(t, shellIn(s, folder, kubeconfigOf(s, func(*clientcmdapi.AuthInfo) {})), "kubectl create rolebinding edit --clusterrole edit --user "+user)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := shell("kubectl auth can-i create jobs.batch.volcano.sh")
		assert.NoError(c, err)
	}, mustertesting.Timeout, mustertesting.Timeout/30)
	_, err = shell("kubectl get nodes")
	require.Error(t, err, "the rights are those of one namespace")
	blocks, _ := chosen(string(content))
	runBlocks(t, page, blocks, shell)
}

// shell runs a command and returns what it printed.
type shell func(command string) (string, error)

// shellIn returns a shell in a folder, for the user of a kubeconfig.
func shellIn(s *harness.Story, folder, kubeconfig string) shell {
	environment := append(os.Environ(), "HOME="+folder, "KUBECONFIG="+kubeconfig, "PATH="+programs(s.T)+":"+os.Getenv("PATH"))
	return func(command string) (string, error) {
		ctx, cancel := context.WithTimeout(s.Ctx, limit)
		defer cancel()
		process := exec.CommandContext(ctx, "bash", "-c", command)
		process.Dir, process.Env = folder, environment
		out, err := process.CombinedOutput()
		return string(out), err
	}
}

// saved matches a block that the reader is to save, and the name of the file.
var saved = regexp.MustCompile("(?s)[Ss]ave this\\s+as\\s+`([\\w.-]+)`:\n\n```yaml\n(.*?\n)```")

// pagesFolder makes a folder with what the commands of a page name. These are the files that it says to save, and manifests.
func pagesFolder(t *testing.T, page string) string {
	folder := t.TempDir()
	require.NoError(t, os.Symlink(absolute(t, repository+"/manifests"), filepath.Join(folder, "manifests")))
	training, err := os.ReadFile("testdata/training.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "training.yaml"), training, 0o600))
	for _, match := range saved.FindAllStringSubmatch(page, -1) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, match[1]), []byte(match[2]), 0o600))
	}
	return folder
}

// runBlocks runs the commands of a page, which all have to succeed.
func runBlocks(t *testing.T, page string, blocks []block, shell shell) {
	for _, b := range blocks {
		for _, command := range b.commands {
			out, err := shell(command)
			require.NoError(t, err, "%s:%d: %s\n%s", page, b.line, command, out)
		}
	}
}

// runs runs a command that has to succeed.
func runs(t *testing.T, shell shell, command string) {
	out, err := shell(command)
	require.NoError(t, err, "%s\n%s", command, out)
}

func absolute(t *testing.T, name string) string {
	path, err := filepath.Abs(name)
	require.NoError(t, err)
	return path
}

// kubeconfigOf writes a kubeconfig whose namespace is that of the test, and returns its name.
func kubeconfigOf(s *harness.Story, change func(*clientcmdapi.AuthInfo)) string {
	s.T.Helper()
	config, err := clientcmd.LoadFromFile(s.Kubeconfig())
	require.NoError(s.T, err)
	current := config.Contexts[config.CurrentContext]
	current.Namespace = s.Namespace
	change(config.AuthInfos[current.AuthInfo])
	file := filepath.Join(s.T.TempDir(), "kubeconfig")
	require.NoError(s.T, clientcmd.WriteToFile(*config, file))
	return file
}

// programs is the folder of muster and kubectl.
func programs(t testing.TB) string {
	t.Helper()
	folder, err := localcluster.DefaultBinDir()
	require.NoError(t, err)
	for _, name := range []string{"muster", "kubectl"} {
		require.FileExists(t, filepath.Join(folder, name), "%s is missing: run `make build` first", name)
	}
	return folder
}
