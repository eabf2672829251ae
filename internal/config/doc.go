// Package config answers one question: what did the operator ask for? It reads the YAML file, the environment and the
// flags into one [Config], fills in every default and names every problem at once, each with file, line, column, field
// and a sentence that says what to write instead.
//
// It decides nothing about a request and keeps no state: a Config is a value, compiled by package catalog into what
// requests use. It never prints a secret: keys become [gateway.Secret] while they are read, no value that came from the
// environment is ever quoted, and every message is scrubbed of the secrets seen before it leaves the package.
//
// Order of precedence. listen, data, database, state: flag > environment > file > default. Settings of resilience:
// built-in profile < environment < file < stored < provider < connection; see [Settings] and [Config.Settings].
package config

//go:generate go test -run TestSchemaFile -update .
