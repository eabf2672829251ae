package plan

// stick puts the target first on which the combo stays for a while, when it is well.
func (pl *Plan) stick() {
	t := pl.Pool.state.Stuck(pl.Pool.sticky)
	if t >= 0 && t < len(pl.inner) && pl.inner[t].Eligible {
		toFront(pl.order, t)
	}
}
