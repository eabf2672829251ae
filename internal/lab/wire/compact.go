package wire

import (
	"strconv"
	"time"
)

// compacted is the answer to a request to compact a conversation: what the user said last, and one opaque item for the
// rest.
func compacted(c *Call, now time.Time) object {
	id := strconv.FormatInt(now.UnixNano(), 36)
	return object{"id": "resp_" + id, "object": "response.compaction", "created_at": now.Unix(),
		"output": []any{
			object{"id": "msg_" + id, "type": "message", "role": "user", "status": "completed",
				"content": []any{object{"type": "input_text", "text": c.Prompt}}},
			object{"id": "cmp_" + id, "type": "compaction", "encrypted_content": "lab-" + id},
		},
		"usage": object{"input_tokens": c.InputTokens, "output_tokens": 1, "total_tokens": c.InputTokens + 1,
			"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0}}}
}
