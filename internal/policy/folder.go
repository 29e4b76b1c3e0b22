package policy

import (
	"fmt"
	"io/fs"
	"path"
)

// ReadFolder reads every *.yaml file of a folder and returns the policies by name.
// Two files of one name are refused, and so is a folder without any.
func ReadFolder(folder fs.FS) (map[string]Policy, error) {
	files, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("policy: the folder holds no *.yaml file")
	}
	byName := map[string]Policy{}
	for _, file := range files {
		data, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, err
		}
		p, err := Parse(path.Base(file), data)
		if err != nil {
			return nil, err
		}
		if _, taken := byName[p.Name]; taken {
			return nil, fmt.Errorf("policy: %s: another file has the name %s", file, p.Name)
		}
		byName[p.Name] = p
	}
	return byName, nil
}
