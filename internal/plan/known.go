package plan

import (
	"spillway/internal/attempt/next"
	"spillway/internal/gateway"
)

// Known is a candidate of another pool as this pool's walk knows it: by this pool's numbers, and by -1 for what it does
// not have. A connection with another model here is still the same connection.
func (p *Pool) Known(c gateway.Candidate) next.Candidate {
	x := next.Candidate{ID: -1, Target: -1, Provider: -1, Connection: -1, Account: -1, Model: -1}
	for i, o := range p.Candidates {
		sameConnection := o.Candidate.Connection.Identity == c.Connection.Identity
		sameProvider := o.Candidate.Connection.Provider.ID == c.Connection.Provider.ID
		if sameProvider {
			x.Provider = o.Provider
			if o.Candidate.Connection.Account == c.Connection.Account {
				x.Account = o.Account
			}
		}
		if sameConnection {
			x.Connection = o.Connection
		}
		if o.Candidate.Model == c.Model {
			x.Model = o.Model
			if sameConnection && x.ID < 0 {
				x.ID, x.Target = i, o.Target
			}
		}
	}
	return x
}
