package attempt

import (
	"bytes"
	"testing"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
)

// An answer can make the gateway remember only so much: each object once, no id that no request can name, and of an
// encrypted text its seal alone.
func TestObjectsOfAnAnswerAreBounded(t *testing.T) {
	long := bytes.Repeat([]byte("x"), gateway.MaxRef+1)
	var x facts
	for range 3 {
		x.made([]protocol.Object{{Kind: protocol.StoredItem, ID: long}, {Kind: protocol.StoredItem, ID: []byte("msg_1")},
			{Kind: protocol.KeptObject, ID: long[1:]}, {Kind: protocol.SealedText, ID: bytes.Repeat(long, 100)}})
	}
	if len(x.objects) != 3 {
		t.Fatalf("%d objects", len(x.objects))
	}
	for _, o := range x.objects {
		if len(o.id) > gateway.MaxRef || o.kind == protocol.SealedText && len(o.id) != len(gateway.Seal{}) {
			t.Errorf("an id of %d bytes", len(o.id))
		}
	}
	for i := range 5000 {
		x.made([]protocol.Object{{Kind: protocol.StoredItem, ID: []byte{byte('a' + i%20), byte('a' + i/20%20), byte('a' + i/400)}}})
	}
	if len(x.objects) > 1024 {
		t.Errorf("%d objects", len(x.objects))
	}
}
