// Package docs holds the documentation and the tests that keep it true: pages that are made from the code, examples
// that are run, tables that are compared with what the code knows. It is imported by nobody and exports nothing.
package docs

//go:generate go test -run TestGeneratedPages -update .
