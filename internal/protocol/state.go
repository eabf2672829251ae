package protocol

import "spillway/internal/protocol/jsonscan"

// maxBlocks is how many content blocks a stream may have open at once; one is the rule.
const maxBlocks = 8

// StreamState is the little that one must know of a stream to end it properly in its own protocol. It belongs to the
// goroutine that writes the stream. The zero value is a stream of which nothing was written. For a stream that passes
// through, Observe keeps it from the signals that the attempt reads anyway; a translator sets the fields itself.
type StreamState struct {
	ID, Model    string
	NextSequence int64 // of the next event, where events are numbered
	Created      int64 // unix seconds; 0 = not known
	Blocks       [maxBlocks]int
	Open         int    // how many of Blocks are open
	ServerTools  int    // tools that run at the server and gave no result yet
	Choices      uint64 // choice indexes seen
	Finished     uint64 // choice indexes that ended
	Begun        bool   // an event was seen
	Terminal     bool   // terminal evidence was seen
	Closed       bool   // nothing may follow
}

// Observe takes notice of one event that goes to the client. It allocates for the first event only.
func (st *StreamState) Observe(s *Signal) {
	if s.Flags.Has(Malformed) {
		return
	}
	st.Begun = true
	if st.ID == "" && len(s.ID) > 0 {
		st.ID = jsonscan.Unquote(s.ID)
	}
	if st.Model == "" && len(s.Model) > 0 {
		st.Model = jsonscan.Unquote(s.Model)
	}
	if s.NextSequence > 0 {
		st.NextSequence = s.NextSequence
	}
	st.Choices |= s.Choices
	st.Finished |= s.Finished
	const rare = ToolOpen | ToolClosed | BlockOpen | BlockClosed | Terminal | Last
	if !s.Flags.Any(rare) {
		return
	}
	if s.Flags.Has(BlockClosed) {
		st.close(s.Block)
	}
	if s.Flags.Has(BlockOpen) && st.Open < maxBlocks {
		st.Blocks[st.Open] = s.Block
		st.Open++
	}
	if s.Flags.Has(ToolClosed) && st.ServerTools > 0 {
		st.ServerTools--
	}
	if s.Flags.Has(ToolOpen) {
		st.ServerTools++
	}
	st.Terminal = st.Terminal || s.Flags.Has(Terminal)
	st.Closed = st.Closed || s.Flags.Has(Last)
}

func (st *StreamState) close(block int) {
	for i := range st.Open {
		if st.Blocks[i] == block {
			copy(st.Blocks[i:st.Open], st.Blocks[i+1:st.Open])
			st.Open--
			return
		}
	}
}

// Complete reports terminal evidence for every choice that began (a request with n > 1 ends choice by choice).
func (st *StreamState) Complete() bool { return st.Terminal && st.Choices&^st.Finished == 0 }
