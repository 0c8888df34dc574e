package testing

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEachDeletionNamesTheObjectThatItMeans reads the code of both programs. Deletions and evictions must have the UID as a precondition.
// The object may have been replaced by a namesake that the program has not seen. It looks at the requests, and at all options that are written.
func TestEachDeletionNamesTheObjectThatItMeans(t *testing.T) {
	found, requests := 0, 0
	for _, folder := range []string{"../controllers", "../scheduler"} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			var function ast.Node
			ast.Inspect(file, func(node ast.Node) bool {
				if declaration, isFunction := node.(*ast.FuncDecl); isFunction {
					function = declaration
				}
				if options, isRequest := requestOf(node); isRequest {
					requests++
					assert.True(t, namesUID(writtenAs(options, function)), "%s: no options with the UID are seen in this function", files.Position(node.Pos()))
				}
				if options, isDeletion := deletionOf(node); isDeletion {
					found++
					assert.True(t, namesUID(options), "%s: write Preconditions with the UID", files.Position(node.Pos()))
				}
				return true
			})
			return nil
		})
		require.NoError(t, err)
	}
	assert.Greater(t, found, 10, "the test finds the deletions")
	assert.Greater(t, requests, 10, "the test finds the requests")
}

// requestOf returns the last argument of a request that deletes or evicts: its options, or the eviction with them.
func requestOf(node ast.Node) (options ast.Node, isRequest bool) {
	call, isCall := node.(*ast.CallExpr)
	if !isCall {
		return nil, false
	}
	method, isMethod := call.Fun.(*ast.SelectorExpr)
	if !isMethod || nameOf(method.X) == "slices" {
		return nil, false
	}
	switch arguments := len(call.Args); {
	case method.Sel.Name == "DeleteCollection": // it takes no UID
		return nil, true
	case method.Sel.Name == "Delete" && arguments == 3, strings.HasPrefix(method.Sel.Name, "Evict") && arguments == 2 && nameOf(call.Args[0]) == "ctx":
		return call.Args[arguments-1], true
	}
	return nil, false
}

// writtenAs follows a variable to the last value that the function gives it; nil if there is none.
func writtenAs(options, function ast.Node) ast.Node {
	if pointer, isPointer := options.(*ast.StarExpr); isPointer {
		options = pointer.X
	}
	variable, isVariable := options.(*ast.Ident)
	if !isVariable {
		return options
	}
	var value ast.Node
	ast.Inspect(function, func(node ast.Node) bool {
		if assign, isAssign := node.(*ast.AssignStmt); isAssign && nameOf(assign.Lhs[0]) == variable.Name {
			value = assign.Rhs[0]
		}
		return true
	})
	return value
}

// deletionOf returns the options of a deletion, where they are written.
func deletionOf(node ast.Node) (options ast.Node, isDeletion bool) {
	switch n := node.(type) {
	case *ast.CompositeLit:
		switch nameOf(n.Type) {
		case "DeleteOptions":
			return valueOf(n, "Preconditions"), true
		case "Eviction":
			return valueOf(n, "DeleteOptions"), true
		}
	case *ast.CallExpr:
		switch nameOf(n.Fun) {
		case "NewDeleteOptions":
			return nil, true
		case "NewPreconditionDeleteOptions":
			return n, true
		}
	}
	return nil, false
}

// namesUID says whether an expression speaks of a UID, or calls a function that returns the options.
func namesUID(options ast.Node) bool {
	if options == nil {
		return false
	}
	names := false
	ast.Inspect(options, func(node ast.Node) bool {
		if name, isName := node.(*ast.Ident); isName {
			names = names || strings.HasSuffix(name.Name, "UID") || name.Name == "deletes" || name.Name == "IfUnchanged"
		}
		return true
	})
	return names
}

func nameOf(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// valueOf is the value of a field of a literal; nil if it is not written.
func valueOf(literal *ast.CompositeLit, field string) ast.Node {
	for _, element := range literal.Elts {
		if pair, isPair := element.(*ast.KeyValueExpr); isPair && nameOf(pair.Key) == field {
			return pair.Value
		}
	}
	return nil
}
