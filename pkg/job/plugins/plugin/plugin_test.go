package plugin

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSecretsAreMadeOnce(t *testing.T) {
	made := func() (map[string][]byte, error) { return map[string][]byte{"key": []byte("new")}, nil }
	tests := []struct {
		name string
		data map[string][]byte
		want string
	}{
		{"no Secret", nil, "new"},
		{"a Secret without the key", map[string][]byte{"config": []byte("x")}, "new"},
		{"a Secret with an empty key", map[string][]byte{"key": {}}, "new"},
		{"a Secret with the key", map[string][]byte{"key": []byte("old")}, "old"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			secrets := SecretsOf(func(name string) map[string][]byte {
				assert.Equal(t, "j-ssh", name)
				return tt.data
			})
			data, err := secrets("j-ssh", []string{"key"}, made)
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(data["key"]))
		})
	}
	_, err := SecretsOf(func(string) map[string][]byte { return nil })("j-ssh", []string{"key"},
		func() (map[string][]byte, error) { return nil, errors.New("no luck") })
	assert.EqualError(t, err, "no luck")
}
