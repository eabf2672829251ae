package account

import (
	"context"
	"fmt"

	"spillway/internal/gateway"
	"spillway/internal/store"
)

// Rows is where decision logs are read from.
type Rows interface {
	Requests(ctx context.Context, f store.Filter) ([]store.Request, error)
}

// Page reads a page of a decision log that no ledger of this process writes: the last request to end first, and the
// cursor of the next page (0 = no more).
func Page(ctx context.Context, rows Rows, f store.Filter) ([]*gateway.Journey, int64, error) {
	list, err := rows.Requests(ctx, f)
	if err != nil {
		return nil, 0, err
	}
	out := make([]*gateway.Journey, 0, len(list))
	var next int64
	for i := range list {
		j, err := decodeJourney(list[i].Detail)
		if err != nil {
			return nil, 0, fmt.Errorf("account: request %s: %w", list[i].ID, err)
		}
		out = append(out, j)
		next = list[i].Cursor
	}
	if len(list) < f.Rows() {
		next = 0
	}
	return out, next, nil
}
