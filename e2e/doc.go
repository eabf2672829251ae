// Package e2e answers one question: do the SDKs that people really use get along with a running gateway? It builds the
// spillway binary, starts it beside the lab's failing upstreams, and drives it with the public SDKs of OpenAI, Anthropic
// and Google for JavaScript, Python and Go (two generations where two are in use), with Vercel's AI SDK over all four
// protocols, and with LiteLLM as a client. Each is pinned and installed by its ordinary client into ignored folders below
// this one. What cannot be installed fails the run; nothing is skipped.
//
// An SDK's script knows nothing of right and wrong: it gets a list of calls (plan_test.go), makes them, and reports what
// it saw. One judge (judge_test.go) compares with what must be, so that every SDK is held to the same.
//
// This is a module of its own, so that SDKs never become dependencies of the gateway. It imports nothing of it either.
// Run it with: go test -v -timeout 30m . (make e2e). The first run compiles the Go SDKs, which takes minutes; the programs
// under golang/ are packages of their own, so that the build cache keeps them.
//
// agents/ is run by hand: coding agents instead of SDKs.
package e2e
