package region

func (p *parts) newAlarms() {}

func (p *parts) newDashboard() {}
