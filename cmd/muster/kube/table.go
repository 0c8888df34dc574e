package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewTable makes a table for the printers of kubectl.
func NewTable(columns ...string) *metav1.Table {
	table := &metav1.Table{}
	for _, column := range columns {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: column})
	}
	return table
}

// AddRow adds a row to it.
func AddRow(table *metav1.Table, cells ...any) {
	table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
}
