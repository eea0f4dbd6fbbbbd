package queue

// ranking is the order of a class's claims. New claims go first: a user waits for the pod of a new claim, while a pod
// that has ended can wait until a burst is over. Every fourth turn is the others', so that ended pods are acted on
// however long claims keep coming. Among the new claims as among the others, namespaces take turns. client-go's queue
// calls it with its lock held.
type ranking struct {
	of            func(uid string) (namespace string, fresh bool)
	fresh, others turns
	row           int // of new claims that went before others
}

// freshInARow is how many new claims go before one of the others does.
const freshInARow = 3

// Touch leaves a claim where it stands when it is added again.
func (r *ranking) Touch(string) {}

// Push puts a claim last of its namespace.
func (r *ranking) Push(uid string) {
	namespace, fresh := r.of(uid)
	if fresh {
		r.fresh.enter(namespace, uid)
	} else {
		r.others.enter(namespace, uid)
	}
}

// Len is how many claims are in the queue.
func (r *ranking) Len() int { return r.fresh.length + r.others.length }

// Pop is called when Len is not 0.
func (r *ranking) Pop() string {
	next := &r.fresh
	othersTurn := r.others.length > 0 && r.row >= freshInARow
	if r.fresh.length == 0 || othersTurn {
		next, r.row = &r.others, 0
	} else {
		r.row++
	}

	namespace, w, _ := next.first(func(string) int { return 0 })
	next.leave(namespace, w.number, true)

	return w.uid
}
