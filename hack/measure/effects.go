package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"strings"
)

// consequences are the functions of the scheduler that pass on what a change means for others.
var consequences = map[string]bool{
	"look": true, "lookAfter": true, "wakeQuotaWaiters": true, "applyReservations": true, "report": true, "wake": true, "changed": true,
	"settleRepair": true, "heldIsFree": true,
}

// applies begins the names of the functions that may call them: Apply, and the functions that only it calls.
const applies = "apply"

// passedOn lists the calls that pass a consequence on by hand: all in the folder but those in apply.
func passedOn(packages []checked, folder string) (places []string) {
	for _, c := range packages {
		if c.folder != folder && !strings.HasPrefix(c.folder, folder+"/") {
			continue
		}
		for _, file := range c.files {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && !strings.HasPrefix(strings.ToLower(f.Name.Name), applies) {
					places = append(places, c.passesOn(f, folder)...)
				}
			}
		}
	}
	return places
}

func (c *checked) passesOn(f *ast.FuncDecl, folder string) (places []string) {
	ast.Inspect(f, func(node ast.Node) bool {
		id, ok := node.(*ast.Ident)
		if !ok || !consequences[id.Name] {
			return true
		}
		called, ok := c.uses[id].(*types.Func)
		if ok && called.Pkg() != nil && strings.HasPrefix(called.Pkg().Path(), module+folder) {
			places = append(places, fmt.Sprintf("%s/%s:%d: %s calls %s", c.folder, c.fileOf(id.Pos()), c.set.Position(id.Pos()).Line, f.Name.Name, id.Name))
		}
		return true
	})
	return places
}
