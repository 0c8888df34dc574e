package localcluster

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPortTaken(t *testing.T) {
	failed := func(log string) error {
		return fmt.Errorf("bringing up: %w", &componentError{name: Etcd, err: errors.New("it ended"), lastWords: []string{"starting", log}})
	}
	tests := map[string]struct {
		err  error
		want bool
	}{
		"a port that another program took": {failed("listen tcp 127.0.0.1:40001: bind: address already in use"), true},
		"another failure":                  {failed("unknown flag: --x"), false},
		"the words in other mouths":        {errors.New("address already in use"), false},
		"with the failure of a stop":       {errors.Join(failed("bind: address already in use"), errors.New("stopping")), true},
		"a start that nothing failed":      {nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, portTaken(test.err))
		})
	}
}
